/* Who is in which bucket: for each bucket a list of token numbers, rising, and the way back, for each token
   the places of the lists where it stands. A token may be in none, one or several buckets, where each bucket
   takes the tokens that score highest in it; or in exactly one, where each token takes its own best.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_MEMBERS_H
#define PARTS_MEMBERS_H

#include <stdbool.h>

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"

/* How many of n tokens a bucket takes: an equal share n / num_buckets, enlarged, at least 1 and at most n.
   The share of `whole` is rounded up first, as if n were padded to a multiple of the buckets. Never falls
   with n. */
struct capacity {
    size_t num_buckets;
    double enlargement;
    bool whole;
};
size_t capacity_of(const struct capacity *capacity, size_t n);

struct members {
    size_t num_buckets;
    uint32_t *start; /* (num_buckets + 1): the list of bucket b is list[start[b] .. start[b + 1]) */
    uint32_t *list;
};

/* Room for `places` numbers in all lists together. */
struct members members_take(struct arena *arena, size_t num_buckets, size_t places);

/* Each bucket b takes the `count` tokens with the largest scores[b * ld + i], i < n; ties to the lower i. One
   bucket an index of the pool. */
void members_by_bucket(const struct members *members, const struct kernels *kernels, struct pool *pool,
                       const float *scores, size_t ld, size_t n, size_t count);

/* Each token is in the bucket choice[i] alone. */
void members_by_token(const struct members *members, const uint32_t *choice, size_t n);

static inline size_t members_of(const struct members *members, size_t bucket)
{
    return members->start[bucket + 1] - members->start[bucket];
}

struct places {
    uint32_t *start; /* (n + 1): token i stands at list[place[start[i] .. start[i + 1])] */
    uint32_t *place; /* of a token in the order of its buckets */
};

struct places places_take(struct arena *arena, size_t n, size_t places);
void places_find(const struct places *places, const struct members *members, size_t n);

/* The same with the buckets of a token, rising, in place of its places. */
void homes_find(uint32_t *start, uint32_t *bucket, const struct members *members, size_t n);

#endif
