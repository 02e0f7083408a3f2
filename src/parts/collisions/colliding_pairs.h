/* Pairs of queries and keys with individual weights, for gradients that cannot be matrix products: with a
   factor that depends on the number of collisions of a pair, a sample of a query's partners, or all pairs of
   a head at once. A causal query attends to only the keys that it sees: visible as in the problem, or NULL.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_COLLIDING_PAIRS_H
#define PARTS_COLLIDING_PAIRS_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/hashing/codes.h"

/* Memory of one thread. */
struct colliding_scratch {
    float *times;             /* (COLLIDING_TILE, COLLIDING_TILE) */
    uint32_t *queries, *keys; /* (COLLIDING_TILE) */
};

enum { COLLIDING_TILE = 64 };

void colliding_scratch_init(struct colliding_scratch *scratch, struct arena *arena);

/* Codes of both sides; of_count[c] is the factor of a pair with c collisions. */
struct colliding {
    const struct codes *queries, *keys;
    const float *of_count; /* (num_hashes + 1) */
    const size_t *visible;
};

/* Number of the rising rows below `limit`. */
size_t colliding_seen(const uint32_t *rows, size_t count, size_t limit);

/* Adds all pairs of a bucket, each times of_count. */
void colliding_add(const struct kernels *kernels, const struct colliding *colliding,
                   const struct colliding_scratch *scratch, const struct bucket_pairs *bucket);

/* As colliding_add, but a query with more than `most` partners takes `most` of them, each times partners /
   most, so that the expectation is the sum over all; times of_count if `counted`. The partners are evenly
   spaced in the list from a random offset, drawn from (key, query): each is equally likely, and all parts of
   the sequence are represented. */
void colliding_sample(const struct kernels *kernels, const struct colliding *colliding,
                      const struct colliding_scratch *scratch, const struct bucket_pairs *bucket, size_t most,
                      uint64_t key, bool counted);

/* Adds all n_q n_k pairs of the head, each once, times of_count (0 for pairs without a collision). `bucket`:
   everything but the rows. */
void colliding_add_all(const struct kernels *kernels, struct pool *pool, const struct colliding *colliding,
                       const struct colliding_scratch *scratches, const struct bucket_pairs *bucket);

#endif
