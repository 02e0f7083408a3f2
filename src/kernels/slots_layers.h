/* Stage layers: layers of a model and the optimiser. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_LAYERS_H
#define KERNELS_SLOTS_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* AdamW (Loshchilov and Hutter 2019, decoupled decay) on a block; see layers.adamw. */
struct adamw {
    float rate, beta1, beta2, epsilon, decay;
    float correction1, correction2; /* 1 - beta1^t (running product if beta1 varies), 1 - beta2^t */
    float gradient_scale;           /* clipping; 1 = none */
};

struct layers_slots {
    /* y = (x - mean) / sqrt(var + epsilon) * gain + bias. mean_rstd (n, 2) is for backward. TOLERANT. */
    void (*norm)(float *y, float *mean_rstd, const float *x, const float *gain, const float *bias, size_t n,
                 size_t dim, float epsilon);

    /* The same without gain and bias, of the rows list[i] of x, which are ld apart and prefetched; list NULL:
       of the rows i. y (n, dim). TOLERANT. */
    void (*plain_norm)(float *y, float *mean_rstd, const float *x, size_t ld, const uint32_t *list, size_t n,
                       size_t dim, float epsilon);

    /* dx += gradient; dgain and dbias += sums over the n rows in order. TOLERANT. */
    void (*norm_backward)(float *dx, float *dgain, float *dbias, const float *dy, const float *x,
                          const float *mean_rstd, const float *gain, size_t n, size_t dim);

    /* y = x Phi(x), the exact form with erf, to 4 ulp of the larger of |y| and 1e-3. May be in place.
       TOLERANT. */
    void (*gelu)(float *y, const float *x, size_t n);

    /* Recomputes GELU and dropout from x for backward: y[i] = factor gelu(x[i]), as slots layers.gelu and
       layers.dropout compute it, and slope[i] = factor (Phi(x[i]) + x[i] phi(x[i])). factor is the multiplier
       of dropout, or 1 without draws if threshold is 0. y may be x. TOLERANT; the factors are EXACT. */
    void (*gelu_again)(float *y, float *slope, const float *x, size_t n, uint64_t key, uint64_t first,
                       unsigned threshold, float scale);

    /* y[i][c] += bias[c]. EXACT. */
    void (*add_bias)(float *y, size_t ld_y, const float *bias, size_t n, size_t dim);

    /* dbias[c] += sum over i, in order, of dy[i][c]. EXACT. */
    void (*add_bias_backward)(float *dbias, const float *dy, size_t n, size_t dim);

    /* Depth-wise convolution along the sequence, `taps` odd, centred, zeros outside [0, n): y[i][c] += sum
       over t of filter[t] * x[i + t - taps/2][c], t rising, fused. EXACT. Backward for x is the same slot
       with the filter reversed. */
    void (*convolve)(float *y, size_t ld_y, const float *x, size_t ld_x, const float *filter, size_t taps,
                     size_t n, size_t dim);

    /* y[i] = [residual: residual[i] +] (draw i >= threshold ? scale : 0) * x[i], each operation rounded. Draw
       i is the i-th 16-bit piece, low half first, of the words random_words(key, first), random_words(key,
       first + 1), ...: eight draws per block. residual may be NULL; y may be x or residual. threshold is 1 to
       65535. EXACT. */
    void (*dropout)(float *y, const float *residual, const float *x, size_t n, uint64_t key, uint64_t first,
                    unsigned threshold, float scale);

    /* One AdamW step on a block of n: m, v are the moments, w the values, g the gradients (read only, times
       gradient_scale). TOLERANT. */
    void (*adamw)(float *w, float *m, float *v, const float *g, size_t n, const struct adamw *step);
};

#endif
