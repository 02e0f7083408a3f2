/* Stage softmax: exponentials of rows of scores, and the shifts that keep them in range. kernels.h has the
   rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_SOFTMAX_H
#define KERNELS_SLOTS_SOFTMAX_H

#include <stddef.h>

struct softmax_slots {
    /* One step of the running softmax (Milakov and Gimelshein 2018) over a tile of raw scores s (rows,
       cols), in place: the new maximum M = max(row_max, s) is not scaled; factor = exp(scale * (row_max -
       M)), 0 if row_max is -inf; s <- exp(scale * (s - M)), at most 1; row_sum <- row_sum * factor + sum
       s; row_max <- M. Subtracting before scaling matters: the rounding of a large scaled score exceeds 1.
       cols >= 1, scale > 0. s is finite, or -inf for a masked pair; each row has a finite score or a
       finite row_max. TOLERANT. */
    void (*step)(float *s, size_t ld_s, size_t rows, size_t cols, float scale, float *row_max, float *row_sum,
                 float *factor);

    /* In place s <- exp(scale * (s - row_max[i]) - log_sum[i]): recomputes the probabilities for backward;
       log_sum is the logarithm of softmax.step's row_sum. One number for both would lose the sum if the
       maximum is large. At most 1 if s <= row_max and log_sum >= 0; s is finite or -inf. TOLERANT. */
    void (*again)(float *s, size_t ld_s, size_t rows, size_t cols, float scale, const float *row_max,
                  const float *log_sum);

    /* out[i] = the largest number of row i of x (rows, cols); cols >= 1, no NaN. EXACT. */
    void (*largest)(float *out, const float *x, size_t ld_x, size_t rows, size_t cols);

    /* y[i][c] = exp(scale * x[i][c] - shift[i]) + plus, the product rounded; y may be x. TOLERANT. */
    void (*exp)(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols, float scale,
                const float *shift, float plus);

    /* In place dp <- scale * p * (dp - delta[i]). TOLERANT. */
    void (*gradient)(float *dp, size_t ld_dp, const float *p, size_t ld_p, size_t rows, size_t cols,
                     float scale, const float *delta);

    /* For rows psi >= 0, each divided by its sum, and rows z of scores with p = softmax(z): kl[i] = sum over
       c of psi log(psi / p), where terms with psi = 0 are 0, and dz = weight * (p - psi). If the sum is less
       than FLT_MIN or not finite, dz and kl[i] are 0. Rows (rows, cols) are contiguous; dz may be z.
       TOLERANT. */
    void (*divergence)(float *kl, float *dz, const float *psi, const float *z, size_t rows, size_t cols,
                       float weight);

    /* In place x[i][c] -= the largest of column c; spread[c] = sum over i of (x[i][c] - mean of column c)^2.
       A column whose sum is not finite becomes -inf, with spread 0. Rows are ld apart. TOLERANT. */
    void (*below_largest)(float *x, size_t ld, float *spread, size_t rows, size_t cols);
};

#endif
