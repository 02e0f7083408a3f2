/* Which rows of a cache are read, by their importance. A choice is a list of rows with the inverse of the
   probability that each was taken with, so that sums over the list, weighted by it, are unbiased.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CHOICE_H
#define DECODING_KV_CHOICE_H

#include "kernels/kernels.h"

/* The candidates of a query row. */
struct kv_candidates {
    const struct kernels *kernels;
    size_t count;      /* a multiple of DECODE_BLOCK */
    float *importance; /* (count), 0 or more; 0: not a candidate. Overwritten */
    uint32_t start;    /* of the systematic sample: uniform over all values */
    uint32_t first;    /* the row of candidate 0 */
};

struct kv_choice {
    uint32_t *row;
    float *weight; /* 1 / probability */
    size_t count;
};

/* Each appends about `wanted` rows to the choice, which has room for `count` more. */

/* Row j with probability min(1, importance / b), where b is such that the probabilities sum to `wanted`.
   Rows of probability 1 are all taken; the others by systematic sampling. */
void kv_choose_sample(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
/* The most important rows, with weight 1. Without some of equal importance, if those are too many. */
void kv_choose_top(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
/* Half of them the most important rows, the other half a uniform sample of the rest (Desai et al. 2026,
   vAttention). */
void kv_choose_top_uniform(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
/* All candidates; a uniform sample if there are more than wanted. */
void kv_choose_uniform(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);

#endif
