/* Balances scores of tokens for groups before groups take the best tokens: the alternating normalisation of
   Sinkhorn and Knopp (1967). Without it a group takes whatever stands out in its direction, and hashes that
   learn from attention end with the same few tokens in many groups and half of all tokens in none
   (docs/LHA.md 1.1). From z (num_groups, n), ld apart: p_bi = exp(scale z_bi), r_i = 1 / sum_b p_bi, then
   `rounds` times c_b = (n / num_groups) / sum_i r_i p_bi, r_i = 1 / sum_b c_b p_bi. Finally z is replaced by
   c_b r_i p_bi: each token distributes 1, and each group gets about the same total. The bits do not depend
   on the threads: sums of tiles are added in order. Cost: one exponential and 4 (rounds + 1) operations per
   number.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BALANCE_H
#define PARTS_BALANCE_H

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"

struct balance {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    size_t num_groups, n, ld, rounds;
    float scale;   /* above 0 */
    void *scratch; /* balance_size bytes */
    /* NULL, or the tokens are those of one rank of several: adds x (n) of all of them. `total`: their
       tokens. */
    void (*sum)(void *argument, float *x, size_t n);
    void *argument;
    size_t total;
};

size_t balance_size(size_t num_groups, size_t n);

/* z: each token's maximum must be subtracted; a token whose z are all -inf takes no part and becomes NaN.
   rounds >= 1. */
void balance(const struct balance *balance, float *z);

#endif
