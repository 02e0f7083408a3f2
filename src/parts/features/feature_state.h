/* The sums of feature_attention.h as a state of constant size: a stream of keys is added to it, and queries
   read it. S (F, d_v), z (F), their level and the number of keys; zeros are the empty state. Rows are added
   in their order, one chain per number, so the bits do not depend on how the stream is cut. Cost: 2 F d_v
   operations per key and per query, and F d_v per change of the level.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_STATE_H
#define PARTS_FEATURE_STATE_H

#include "parts/features/feature_attention.h"

struct feature_state {
    struct feature_map map;
    size_t value_dim;
    float epsilon, floor; /* as in struct feature_attention */
    void *block;          /* feature_state_size bytes */
};

size_t feature_state_size(const struct feature_state *state);
size_t feature_state_scratch_size(const struct feature_state *state);

/* Some keys. Levels: of each key as in struct feature_attention, and of the sums after each key, which is at
   least the key's and never falls, within or between calls; both NULL: none, in all calls. */
struct feature_keys {
    struct view key, value;
    const double *level, *level_after;
};

/* True if no key was added. */
bool feature_state_is_empty(const struct feature_state *state);
/* Level of the sums. Not for an empty state. */
double feature_state_level(const struct feature_state *state);

void feature_state_add(const struct feature_state *state, const struct feature_keys *keys, void *scratch);
/* Writes out (n_q, d_v) for the queries against all keys added. Without levels, or if the level of a query is
   that of the sums. */
void feature_state_read(const struct feature_state *state, struct view query, struct view out, void *scratch);
/* Both, in token order: query i is read after the first visible[i] keys were added. All keys have been added
   at the end. */
void feature_state_scan(const struct feature_state *state, const struct feature_keys *keys, struct view query,
                        const size_t *visible, struct view out, void *scratch);
/* into += from, at the larger level, after `offset` is added to the level of `from`. */
void feature_state_merge(const struct feature_state *into, const struct feature_state *from, double offset);

#endif
