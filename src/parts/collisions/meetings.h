/* Pairs of queries and keys with individual weights, for gradients that cannot be matrix products: with a
   factor that depends on the number of collisions of a pair, a sample of a query's partners, or all pairs of
   a head at once. A causal query attends to only the keys that it sees: visible as in the problem, or NULL.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_MEETINGS_H
#define PARTS_MEETINGS_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/hashing/codes.h"

/* Memory of one thread. */
struct meeting_space {
    float *times;             /* (MEETING_TILE, MEETING_TILE) */
    uint32_t *queries, *keys; /* (MEETING_TILE) */
};

enum { MEETING_TILE = 64 };

void meeting_space_lay_out(struct meeting_space *space, struct arena *arena);

/* Codes of both sides; of_count[c] is the factor of a pair with c collisions. */
struct meetings {
    const struct codes *queries, *keys;
    const float *of_count; /* (num_hashes + 1) */
    const size_t *visible;
};

/* Number of the rising rows below `limit`. */
size_t meetings_seen(const uint32_t *rows, size_t count, size_t limit);

/* Adds all pairs of a bucket, each times of_count. */
void meetings_add(const struct kernels *kernels, const struct meetings *meetings,
                  const struct meeting_space *space, const struct bucket_pairs *bucket);

/* As meetings_add, but a query with more than `most` partners takes `most` of them, each times partners /
   most, so that the expectation is the sum over all; times of_count if `counted`. The partners are evenly
   spaced in the list from a random offset, drawn from (key, query): each is equally likely, and all parts of
   the sequence are represented. */
void meetings_sample(const struct kernels *kernels, const struct meetings *meetings,
                     const struct meeting_space *space, const struct bucket_pairs *bucket, size_t most,
                     uint64_t key, bool counted);

/* Adds all n_q n_k pairs of the head, each once, times of_count (0 for pairs without a collision). `bucket`:
   everything but the rows. */
void meetings_add_all(const struct kernels *kernels, struct pool *pool, const struct meetings *meetings,
                      const struct meeting_space *spaces, const struct bucket_pairs *bucket);

#endif
