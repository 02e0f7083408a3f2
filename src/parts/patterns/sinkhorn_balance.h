/* Sinkhorn balancing (Sinkhorn 1964; Mena et al. 2018, equations 4 and 5): a matrix of scores becomes one of
   positive numbers whose columns sum to 1 and whose rows nearly do. One round divides the rows of exp(scores)
   by their sums, then the columns by theirs, in logarithms: log R_ij = score_ij - u_i - v_j, where u and v
   are the logarithms of the sums so far. Cost: 2 rounds n^2 exponentials forward, the same backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_SINKHORN_BALANCE_H
#define PARTS_SINKHORN_BALANCE_H

#include "base/memory.h"
#include "kernels/kernels.h"

struct sinkhorn_balance {
    const struct kernels *kernels;
    size_t n, rounds;
    const float *scores; /* (n, n) */
    float *potentials;   /* (rounds, 2, n): u and v after each round; forward writes, backward reads */
};

/* Floats of the scratch of each direction. */
static inline size_t sinkhorn_balance_scratch(size_t n)
{
    return size_product(3, n);
}

/* Writes balanced (n, n): R. */
void sinkhorn_balance_forward(const struct sinkhorn_balance *balance, float *balanced, float *scratch);
/* R again, from the potentials. */
void sinkhorn_balance_again(const struct sinkhorn_balance *balance, float *balanced);
/* In place: the gradient of R (n, n) becomes that of the scores. */
void sinkhorn_balance_backward(const struct sinkhorn_balance *balance, float *gradient, float *scratch);

#endif
