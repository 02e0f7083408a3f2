/* The sums of feature_attention.h as a state of constant size: a stream of keys is added to it, and queries
   read it. S (F, d_v), z (F), their level and the number of keys; zeros are the empty state. Rows are added
   in their order, one chain per number, so the bits do not depend on how the stream is cut. Cost: 2 F d_v
   operations per key and per query, and F d_v per change of the level.

   Levels of keys, if the attention gives them or its map finds them. The level of the sums after each key is
   at least the key's and never falls, within or between calls: levels.after, or the largest that the map
   found.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_STATE_H
#define PARTS_FEATURE_STATE_H

#include "parts/features/feature_attention.h"

/* The state does not depend on the rows, the scratch on their number if the map finds levels. */
size_t feature_state_size(const void *options, const struct problem_shape *shape,
                          const struct feature_attention *attention);
size_t feature_state_scratch_size(const void *options, const struct problem_shape *shape,
                                  const struct feature_attention *attention);

/* Level of the sums; `empty` if no key was added. */
double feature_state_level(const void *options, const struct problem_shape *shape,
                           const struct feature_attention *attention, const void *state, double empty);

/* Adds the keys of a problem, in its scratch. */
void feature_state_add(const struct problem *problem, const struct feature_attention *attention, void *state);
/* Writes out (n_q, d_v) for the queries of a problem. Causal: query i is read after the first visible[i] keys
   were added, and all have been added at the end. Otherwise against all keys added, without levels, or if the
   level of a query is that of the sums; nothing is added. */
void feature_state_read(const struct problem *problem, const struct feature_attention *attention, void *state,
                        struct view out);
/* into += from, at the larger level, after `offset` is added to the level of `from`. */
void feature_state_merge(const void *options, const struct problem_shape *shape,
                         const struct feature_attention *attention, void *into, const void *from,
                         double offset);

#endif
