/* Stage softmax: exponentials of rows of scores, and what makes them safe. kernels.h has the rules of all
   contracts. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_SOFTMAX_H
#define KERNELS_SLOTS_SOFTMAX_H

#include <stddef.h>

struct softmax_slots {
    /* One step of the running softmax (Milakov and Gimelshein 2018) over a tile of raw scores s (rows, cols),
       in place: new max M = max(row_max, s), not scaled; factor = exp(scale * (row_max - M)), 0 where row_max
       is -inf; s <- exp(scale * (s - M)), which is at most 1; row_sum <- row_sum * factor + sum s; row_max <-
       M. The difference comes first: a product of large scores is off by more than 1. cols >= 1, scale > 0; s
       is finite, or -inf for a pair that does not take part, in a row that has a finite one or a finite
       row_max. TOLERANT. */
    void (*step)(float *s, size_t ld_s, size_t rows, size_t cols, float scale, float *row_max, float *row_sum,
                 float *factor);

    /* In place s <- exp(scale * (s - row_max[i]) - log_sum[i]): the probabilities again, for backward, with
       log_sum the logarithm of softmax.step's row_sum. One number for both would lose the sum where the
       maximum is large. At most 1 where s <= row_max and log_sum >= 0; s finite or -inf. TOLERANT. */
    void (*again)(float *s, size_t ld_s, size_t rows, size_t cols, float scale, const float *row_max,
                  const float *log_sum);

    /* out[i] = the largest of x (rows, cols), cols >= 1, none of which is NaN. EXACT. */
    void (*largest)(float *out, const float *x, size_t ld_x, size_t rows, size_t cols);

    /* y[i][c] = exp(scale * x[i][c] - shift[i]) + plus, the product rounded; y may be x. TOLERANT. */
    void (*exp)(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols, float scale,
                const float *shift, float plus);

    /* In place dp <- scale * p * (dp - delta[i]). TOLERANT. */
    void (*gradient)(float *dp, size_t ld_dp, const float *p, size_t ld_p, size_t rows, size_t cols,
                     float scale, const float *delta);

    /* Of rows psi >= 0, each over its sum, and rows z of scores, p = softmax(z): kl[i] = sum over c of psi
       log(psi / p), terms of psi = 0 being 0, and dz = weight * (p - psi). Where the sum is 0 or not finite
       dz and kl[i] are 0. Rows (rows, cols), adjacent; dz may be z. TOLERANT. */
    void (*divergence)(float *kl, float *dz, const float *psi, const float *z, size_t rows, size_t cols,
                       float weight);

    /* In place x[i][c] -= the largest of column c; spread[c] = sum over i of (x[i][c] - mean of column c)^2.
       A column whose sum is no finite number becomes -inf throughout, with spread 0. Rows are ld apart.
       TOLERANT. */
    void (*below_largest)(float *x, size_t ld, float *spread, size_t rows, size_t cols);
};

#endif
