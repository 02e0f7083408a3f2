/* The iterative pseudo-inverse of Nystromformer (Xiong et al. 2021, equation 11; Razavi et al. 2014): six
   steps of Z' = Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4 from Z = A^T / s, for square A >= 0 whose rows
   sum to 1. s is the largest sum of a column of A, the norm that bounds the start of a convergent iteration.
   The released code takes the maximum over all heads of the batch; here s belongs to A, so that a sequence
   has one result in every batch. The gradient goes through s too (at equal sums, through the first column).
   Cost: 4 products of m x m per step, 8 backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_PSEUDO_INVERSE_H
#define ATTENTION_PSEUDO_INVERSE_H

#include "base/memory.h"
#include "kernels/kernels.h"

enum { PSEUDO_INVERSE_STEPS = 6 };

/* What a step starts from and computes; each (m, m). */
struct inverse_step {
    float *z, *m, *v, *p; /* Z, M = A Z, V = 15 I - M (7 I - M), P = 13 I - M V */
};

struct pseudo_inverse {
    struct inverse_step steps[PSEUDO_INVERSE_STEPS];
    float *result;   /* (m, m) */
    float *spare[4]; /* (m, m) each: work space */
};

struct pseudo_inverse pseudo_inverse_take(struct arena *arena, size_t m);

/* Fills the steps and the result from a (m, m). */
void pseudo_inverse_forward(const struct kernels *kernels, const struct pseudo_inverse *inverse,
                            const float *a, size_t m);

/* da (m, m) += the gradient of a, from dresult (m, m), which is overwritten. */
void pseudo_inverse_backward(const struct kernels *kernels, const struct pseudo_inverse *inverse,
                             const float *a, size_t m, float *dresult, float *da);

#endif
