/* Rows of layers, and the optimiser: short loops, mostly bound by memory. Layer norm takes four rows at a
   time: summing the lanes of four rows costs as much as those of one, and the chains of additions of one row
   are too short to fill the processor (1.7 times as fast as row by row at dim 64).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_LAYERS_H
#define KERNELS_SIMD_LAYERS_H

#include <math.h>

#include "kernels/simd_math.h"
#include "kernels/slots_layers.h"

/* Row i + r, or the last row if that is past the end; its results are then computed twice. */
INLINE size_t norm_row(size_t i, size_t r, size_t n)
{
    return i + r < n ? i + r : n - 1;
}

/* Four rows; gain NULL: 1, with bias 0. The first `count` of them are written. */
INLINE void norm_four(float *const y[4], float *mean_rstd, const float *const row[4], const float *gain,
                      const float *bias, size_t count, size_t dim, float epsilon)
{
    float mean[4], variance[4], rstd[4];
    vf sum[4], square[4], means[4], rstds[4];
    UNROLLED
    for (size_t r = 0; r < 4; r++)
        sum[r] = square[r] = v_zero();
    for (size_t c = 0; c < dim; c += VLEN) {
        UNROLLED
        for (size_t r = 0; r < 4; r++)
            sum[r] = v_add(sum[r], v_get(row[r] + c, dim - c));
    }
    v_sum4(mean, sum[0], sum[1], sum[2], sum[3], 0.0f, 1.0f / (float)dim);
    UNROLLED
    for (size_t r = 0; r < 4; r++)
        means[r] = v_set(mean[r]);
    for (size_t c = 0; c < dim; c += VLEN) {
        size_t left = dim - c < VLEN ? dim - c : VLEN;
        UNROLLED
        for (size_t r = 0; r < 4; r++) {
            vf centred = v_sub(v_load_part(row[r] + c, left, means[r]), means[r]);
            square[r] = v_fma(centred, centred, square[r]);
        }
    }
    v_sum4(variance, square[0], square[1], square[2], square[3], 0.0f, 1.0f / (float)dim);
    for (size_t r = 0; r < 4; r++)
        rstd[r] = 1 / sqrtf(variance[r] + epsilon);
    for (size_t r = 0; r < count; r++) {
        mean_rstd[2 * r] = mean[r];
        mean_rstd[2 * r + 1] = rstd[r];
    }
    UNROLLED
    for (size_t r = 0; r < 4; r++)
        rstds[r] = v_set(rstd[r]);
    for (size_t c = 0; c < dim; c += VLEN) {
        vf gains = gain == NULL ? v_set(1.0f) : v_get(gain + c, dim - c);
        vf biases = gain == NULL ? v_zero() : v_get(bias + c, dim - c);
        UNROLLED
        for (size_t r = 0; r < 4; r++) {
            vf hat = v_mul(v_sub(v_get(row[r] + c, dim - c), means[r]), rstds[r]);
            v_put(y[r] + c, gain == NULL ? hat : v_fma(hat, gains, biases), dim - c);
        }
    }
}

static void layers_norm(float *y, float *mean_rstd, const float *x, const float *gain, const float *bias,
                        size_t n, size_t dim, float epsilon)
{
    for (size_t i = 0; i < n; i += 4) {
        const float *row[4];
        float *to[4];
        for (size_t r = 0; r < 4; r++) {
            row[r] = x + norm_row(i, r, n) * dim;
            to[r] = y + norm_row(i, r, n) * dim;
        }
        norm_four(to, mean_rstd + 2 * i, row, gain, bias, n - i < 4 ? n - i : 4, dim, epsilon);
    }
}

/* Forward of lha takes 0.97 of the time that it took when rows were gathered before they were normed (Zen 5).
 */
static void layers_plain_norm(float *y, float *mean_rstd, const float *x, size_t ld, const uint32_t *list,
                              size_t n, size_t dim, float epsilon)
{
    enum { AHEAD = 12, LINE = 16 };
    for (size_t i = 0; i < n; i += 4) {
        const float *row[4];
        float *to[4];
        for (size_t r = 0; r < 4; r++) {
            size_t at = norm_row(i, r, n);
            row[r] = x + (list == NULL ? at : list[at]) * ld;
            to[r] = y + at * dim;
        }
        for (size_t at = i + AHEAD; list != NULL && at < i + AHEAD + 4 && at < n; at++)
            for (size_t c = 0; c < dim; c += LINE)
                __builtin_prefetch(x + list[at] * ld + c);
        norm_four(to, mean_rstd + 2 * i, row, NULL, NULL, n - i < 4 ? n - i : 4, dim, epsilon);
    }
}

static void layers_norm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x,
                                 const float *mean_rstd, const float *gain, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i += 2) {
        size_t rows = n - i < 2 ? 1 : 2, at[2] = {i * dim, (i + rows - 1) * dim};
        vf sum[2], sum_hat[2], mean[2], rstd[2]; /* sums of g = dy * gain, and of g times the normalised x */
        float means[4];
        UNROLLED
        for (size_t r = 0; r < 2; r++) {
            mean[r] = v_set(mean_rstd[2 * norm_row(i, r, n)]);
            rstd[r] = v_set(mean_rstd[2 * norm_row(i, r, n) + 1]);
            sum[r] = sum_hat[r] = v_zero();
        }
        for (size_t c = 0; c < dim; c += VLEN) {
            size_t left = dim - c;
            vf gains = v_get(gain + c, left), to_gain = v_get(dgain + c, left),
               to_bias = v_get(dbias + c, left);
            UNROLLED
            for (size_t r = 0; r < 2; r++) {
                vf hat = v_mul(v_sub(v_get(x + at[r] + c, left), mean[r]), rstd[r]);
                vf each = v_get(dy + at[r] + c, left), g = v_mul(each, gains); /* 0 in missing lanes */
                sum[r] = v_add(sum[r], g);
                sum_hat[r] = v_fma(g, hat, sum_hat[r]);
                if (r < rows) {
                    to_gain = v_fma(each, hat, to_gain);
                    to_bias = v_add(each, to_bias);
                }
            }
            v_put(dgain + c, to_gain, left);
            v_put(dbias + c, to_bias, left);
        }
        v_sum4(means, sum[0], sum_hat[0], sum[1], sum_hat[1], 0.0f, 1.0f / (float)dim);
        for (size_t r = 0; r < rows; r++) {
            vf mean_g = v_set(means[2 * r]), mean_hat = v_set(means[2 * r + 1]);
            for (size_t c = 0; c < dim; c += VLEN) {
                size_t left = dim - c;
                vf hat = v_mul(v_sub(v_get(x + at[r] + c, left), mean[r]), rstd[r]);
                vf g = v_mul(v_get(dy + at[r] + c, left), v_get(gain + c, left));
                vf part = v_fnma(hat, mean_hat, v_sub(g, mean_g));
                v_put(dx + at[r] + c, v_fma(rstd[r], part, v_get(dx + at[r] + c, left)), left);
            }
        }
    }
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation for either sign. */
INLINE vf gelu_value(vf x, vf tail)
{
    /* The bound avoids infinity times 0; beyond it the tail is 0. */
    return v_sub(v_max(v_zero(), x), v_mul(v_min(v_set(100.0f), v_abs(x)), tail));
}

/* Phi(x) + x phi(x), phi(x) = density / sqrt(2 pi). */
INLINE vf gelu_slope(vf x, vf tail, vf density)
{
    vf phi = v_select(v_less(x, v_zero()), tail, v_sub(v_set(1.0f), tail));
    vf bounded = v_max(v_set(-100.0f), v_min(v_set(100.0f), x));
    return v_fma(v_mul(bounded, v_set(0.398942280f)), density, phi);
}

static void layers_gelu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += VLEN) {
        vf each = v_get(x + i, n - i), density;
        v_put(y + i, gelu_value(each, v_normal_tail(v_abs(each), &density)), n - i);
    }
}

static void layers_add_bias(float *y, size_t ld_y, const float *bias, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c += VLEN) {
            float *to = y + i * ld_y + c;
            v_put(to, v_add(v_get(to, dim - c), v_get(bias + c, dim - c)), dim - c);
        }
}

/* Up to BIAS_ROWS rows, with BIAS_VECTORS vectors of columns in registers. */
enum { BIAS_ROWS = 8, BIAS_VECTORS = 4 };

INLINE void add_bias_part(const size_t vectors, const size_t left, float *dbias, const float *dy, size_t rows,
                          size_t dim)
{
    vf sum[BIAS_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_get(dbias + v * VLEN, left);
    for (size_t i = 0; i < rows; i++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[v] = v_add(sum[v], v_get(dy + i * dim + v * VLEN, left));
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(dbias + v * VLEN, sum[v], left);
}

/* 0.28 ns for 16 numbers at 64 columns in the first-level cache, compared with 0.98 for one row at a time,
   where each sum waits for the previous store. All rows for some columns would be faster there, but takes
   twice the time at 3,072 columns, where each row is on another page. */
static void layers_add_bias_backward(float *dbias, const float *dy, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i += BIAS_ROWS, dy += BIAS_ROWS * dim) {
        size_t rows = n - i < BIAS_ROWS ? n - i : BIAS_ROWS, c = 0;
        for (; c + BIAS_VECTORS * VLEN <= dim; c += BIAS_VECTORS * VLEN)
            add_bias_part(BIAS_VECTORS, VLEN, dbias + c, dy + c, rows, dim);
        for (; c < dim; c += VLEN)
            add_bias_part(1, dim - c, dbias + c, dy + c, rows, dim);
    }
}

/* One row of y and CONVOLVE_VECTORS vectors of columns stay in registers over all taps. */
enum { CONVOLVE_VECTORS = 4 };

INLINE void convolve_part(const size_t vectors, const size_t left, float *y, const float *x, size_t ld_x,
                          const float *filter, size_t taps)
{
    vf sum[CONVOLVE_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        sum[v] = v_get(y + v * VLEN, left);
    for (size_t t = 0; t < taps; t++) {
        vf each = v_set(filter[t]);
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[v] = v_fma(each, v_get(x + t * ld_x + v * VLEN, left), sum[v]);
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(y + v * VLEN, sum[v], left);
}

static void layers_convolve(float *y, size_t ld_y, const float *x, size_t ld_x, const float *filter,
                            size_t taps, size_t n, size_t dim)
{
    size_t half = taps / 2;
    for (size_t i = 0; i < n; i++) {
        /* The taps inside the sequence: `some` of them, from first on. */
        size_t first = i < half ? half - i : 0, row = i + first - half;
        size_t some = taps - first < n - row ? taps - first : n - row, c = 0;
        const float *from = x + row * ld_x;
        float *to = y + i * ld_y;
        for (; c + CONVOLVE_VECTORS * VLEN <= dim; c += CONVOLVE_VECTORS * VLEN)
            convolve_part(CONVOLVE_VECTORS, VLEN, to + c, from + c, ld_x, filter + first, some);
        for (; c < dim; c += VLEN)
            convolve_part(1, dim - c, to + c, from + c, ld_x, filter + first, some);
    }
}

static void layers_adamw(float *w, float *m, float *v, const float *g, size_t n, const struct adamw *step)
{
    vf beta1 = v_set(step->beta1), beta2 = v_set(step->beta2), scale = v_set(step->gradient_scale);
    vf other1 = v_set(1 - step->beta1), other2 = v_set(1 - step->beta2), epsilon = v_set(step->epsilon);
    vf rate = v_set(step->rate / step->correction1), keep = v_set(1 - step->rate * step->decay);
    vf per_correction2 = v_set(1 / step->correction2);
    for (size_t i = 0; i < n; i += VLEN) {
        size_t left = n - i;
        vf gradient = v_mul(v_get(g + i, left), scale);
        vf first = v_fma(beta1, v_get(m + i, left), v_mul(other1, gradient));
        vf second = v_fma(beta2, v_get(v + i, left), v_mul(other2, v_mul(gradient, gradient)));
        vf size = v_add(v_sqrt(v_mul(second, per_correction2)), epsilon);
        vf moved = v_fnma(rate, v_div(first, size), v_mul(keep, v_get(w + i, left)));
        v_put(m + i, first, left);
        v_put(v + i, second, left);
        v_put(w + i, moved, left);
    }
}

#define SIMD_LAYERS                                                                                          \
    .layers.norm = layers_norm, .layers.plain_norm = layers_plain_norm,                                      \
    .layers.norm_backward = layers_norm_backward, .layers.gelu = layers_gelu,                                \
    .layers.add_bias = layers_add_bias, .layers.add_bias_backward = layers_add_bias_backward,                \
    .layers.convolve = layers_convolve, .layers.adamw = layers_adamw

#endif
