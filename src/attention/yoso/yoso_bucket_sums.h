/* Gradients of queries and keys of `lower` over rows that ranks share, from sums by bucket
   (parts/collisions/dense_bucket.h): dq_i and dk_i need V^T K and G^T Q of each of their buckets, which are
   added over the ranks. Bytes sent do not grow with the rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_YOSO_BUCKET_SUMS_H
#define ATTENTION_YOSO_BUCKET_SUMS_H

#include "attention/mechanism.h"
#include "parts/collisions/pairs.h"

struct yoso_bucket_sums {
    struct hashing hashing;
    size_t width;      /* of [value, bias] */
    size_t ld;         /* of a sum's rows */
    size_t at_once;    /* hashes whose sums are added together */
    uint32_t *rows[2]; /* (at_once, n) queries and keys, sorted by code */
    uint32_t *ends[2]; /* (at_once, 2^tau + 1): bucket b has rows ends[b] .. ends[b + 1) */
    float *sums;       /* (2, at_once, 2^tau, width, ld): of queries and of keys */
    void *sum_scratch;
};

/* Bytes that a rank sends. dim, value_dim: of unit rows and values; bias: normalize sum. */
double yoso_bucket_sums_bytes(const struct hashing *hashing, size_t ranks, size_t dim, size_t value_dim,
                              bool bias);

void yoso_bucket_sums_init(struct yoso_bucket_sums *sums, struct arena *arena, const struct hashing *hashing,
                           const struct problem_shape *shape, size_t dim, bool bias);

/* As pairs_add for PAIR_CONSTANT, with the keys of all ranks. work: its dense scratch is used. */
void yoso_bucket_sums_add(const struct problem *problem, const struct yoso_bucket_sums *sums,
                          const struct pairs *pairs, const struct pair_work *work,
                          const struct codes *queries, const struct codes *keys);

#endif
