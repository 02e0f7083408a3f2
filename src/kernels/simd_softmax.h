/* The running softmax over tiles, its repetition for backward, and its gradient. About fourteen operations
   for VLEN scores, in two passes over a row that is in the first-level cache: the maximum, then exp and the
   sum. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_SOFTMAX_H
#define KERNELS_SIMD_SOFTMAX_H

#include "kernels/kernels.h"
#include "kernels/simd_math.h"

/* The largest of `start` and of scale * row. */
INLINE float softmax_largest(const float *row, size_t cols, vf scale, float start)
{
    vf largest = v_set(start);
    size_t c = 0;
    for (; c + VLEN <= cols; c += VLEN)
        largest = v_max(v_mul(v_load(row + c), scale), largest);
    if (c < cols) /* the missing lanes repeat the first score of the tail */
        largest = v_max(v_mul(v_load_part(row + c, cols - c, v_set(row[c])), scale), largest);
    return v_largest(largest);
}

/* In place exp(scale * row - shift), and the sum of that. */
INLINE float softmax_exp(float *row, size_t cols, vf scale, float shift)
{
    vf sum = v_zero(), minus_shift = v_set(-shift);
    for (size_t c = 0; c < cols; c += VLEN) {
        size_t left = cols - c < VLEN ? cols - c : VLEN;
        vf p = v_exp(v_fma(v_get(row + c, left), scale, minus_shift));
        v_put(row + c, p, left);
        sum = v_add(sum, v_keep(p, left));
    }
    return v_sum(sum);
}

static void softmax_step(float *s, size_t ld_s, size_t rows, size_t cols, float scale, float *row_max,
                         float *row_sum, float *factor)
{
    vf scales = v_set(scale);
    for (size_t i = 0; i < rows; i += VLEN) {
        size_t left = rows - i < VLEN ? rows - i : VLEN;
        float largest[VLEN], sum[VLEN];
        for (size_t r = 0; r < left; r++) {
            float *row = s + (i + r) * ld_s;
            largest[r] = softmax_largest(row, cols, scales, row_max[i + r]);
            sum[r] = softmax_exp(row, cols, scales, largest[r]);
        }
        vf new_max = v_load_part(largest, left, v_zero());
        vf factors = v_exp(v_sub(v_get(row_max + i, left), new_max));
        vf sums = v_fma(v_get(row_sum + i, left), factors, v_load_part(sum, left, v_zero()));
        v_put(factor + i, factors, left);
        v_put(row_sum + i, sums, left);
        v_put(row_max + i, new_max, left);
    }
}

static void softmax_again(float *s, size_t ld_s, size_t rows, size_t cols, float scale, const float *lse)
{
    vf scales = v_set(scale);
    for (size_t i = 0; i < rows; i++) {
        float *row = s + i * ld_s;
        vf shift = v_set(-lse[i]);
        for (size_t c = 0; c < cols; c += VLEN)
            v_put(row + c, v_exp(v_fma(v_get(row + c, cols - c), scales, shift)), cols - c);
    }
}

static void softmax_gradient(float *dp, size_t ld_dp, const float *p, size_t ld_p, size_t rows, size_t cols,
                             float scale, const float *delta)
{
    vf scales = v_set(scale);
    for (size_t i = 0; i < rows; i++) {
        float *row = dp + i * ld_dp;
        vf shift = v_set(delta[i]);
        for (size_t c = 0; c < cols; c += VLEN) {
            vf scaled = v_mul(v_get(p + i * ld_p + c, cols - c), scales);
            v_put(row + c, v_mul(v_sub(v_get(row + c, cols - c), shift), scaled), cols - c);
        }
    }
}

#endif
