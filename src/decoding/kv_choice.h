/* Which rows of a cache a query reads, from estimated scores. A choice is a list of rows with the inverse of
   the probability that each was taken with, so that sums over the list, weighted by it, are unbiased.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CHOICE_H
#define DECODING_KV_CHOICE_H

#include "kernels/kernels.h"

/* The candidates of one query row and head, and memory to choose in. */
struct kv_candidates {
    const struct kernels *kernels;
    size_t count;   /* a multiple of 64 */
    float *score;   /* (count), estimated and not scaled; -inf: not a candidate. Overwritten */
    float *room;    /* (count) */
    float *parts;   /* (count / DECODE_PART) */
    float exponent; /* t times the scale of scores */
    double start;   /* in [0, 1): where systematic sampling begins */
    uint32_t first; /* the row of candidate 0 */
};

struct kv_choice {
    uint32_t *row;
    float *weight; /* 1 / probability */
    size_t count;
};

/* Each appends about `wanted` rows to the choice, which has room for all candidates. */

/* Row j with probability min(1, c exp(exponent score_j)), where c is such that the probabilities sum to
   `wanted`. Rows of probability 1 are all taken; the others by systematic sampling (Madow 1949): one at each
   whole step of the running sum of probabilities from `start` on. */
void kv_choose_sample(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
/* The rows of the best scores, with weight 1. Without some that share the lowest score, if those are too
   many. */
void kv_choose_top(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
/* Half of them the rows of the best scores, the other half a uniform sample of the rest (Desai et al. 2026,
   vAttention). */
void kv_choose_top_uniform(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);
/* The rows with a positive score; a uniform sample if there are more than wanted. */
void kv_choose_positive(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice);

#endif
