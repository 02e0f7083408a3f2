/* Pairs of queries and keys that are weighed one by one, for gradients that cannot go through products of
   matrices: with a factor that depends on how often a pair meets, a sample of a query's partners, or all
   pairs of a head at once. A causal query has the keys that it sees alone: visible as in the problem, or
   NULL. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_MEETINGS_H
#define PARTS_MEETINGS_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/hashing/codes.h"

/* What one thread needs. */
struct meeting_space {
    float *times;             /* (MEETING_TILE, MEETING_TILE) */
    uint32_t *queries, *keys; /* (MEETING_TILE) */
};

enum { MEETING_TILE = 64 };

void meeting_space_lay_out(struct meeting_space *space, struct arena *arena);

/* Codes of both sides, and what a pair that meets so often is multiplied by. */
struct meetings {
    const struct codes *queries, *keys;
    const float *of_count; /* (num_hashes + 1) */
    const size_t *visible;
};

/* How many of the rising rows are below `limit`. */
size_t meetings_seen(const uint32_t *rows, size_t count, size_t limit);

/* All pairs of a bucket, each times of_count. */
void meetings_add(const struct kernels *kernels, const struct meetings *meetings,
                  const struct meeting_space *space, const struct bucket_pairs *bucket);

/* For each query of a bucket `most` of its partners, where it has more, and these times partners / most, so
   that the mean over keys is the sum over all; times of_count if `counted`. Which: evenly over the list from
   a random beginning, drawn for (key, query): each partner is as likely as any other, and far ones of the
   sequence are all represented. */
void meetings_sample(const struct kernels *kernels, const struct meetings *meetings,
                     const struct meeting_space *space, const struct bucket_pairs *bucket, size_t most,
                     uint64_t key, bool counted);

/* All pairs of the head, each once, times of_count (0 for those that never meet): n_q n_k of them however
   often they meet. `bucket` says everything but the rows. */
void meetings_add_all(const struct kernels *kernels, struct pool *pool, const struct meetings *meetings,
                      const struct meeting_space *spaces, const struct bucket_pairs *bucket);

#endif
