/* The slots of stage layers as plain loops, with sums in double. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_LAYERS_H
#define KERNELS_REF_LAYERS_H

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kernels/ref_math.h"
#include "kernels/slots_layers.h"

/* gain NULL: 1, with bias 0. */
static void norm_row(float *y, float *mean_rstd, const float *row, const float *gain, const float *bias,
                     size_t dim, float epsilon)
{
    double mean = 0, variance = 0;
    for (size_t c = 0; c < dim; c++)
        mean += (double)row[c] / (double)dim;
    for (size_t c = 0; c < dim; c++)
        variance += ((double)row[c] - mean) * ((double)row[c] - mean) / (double)dim;
    double rstd = 1 / sqrt(variance + (double)epsilon);
    mean_rstd[0] = (float)mean;
    mean_rstd[1] = (float)rstd;
    for (size_t c = 0; c < dim; c++) {
        double hat = ((double)row[c] - mean) * rstd;
        y[c] = gain == NULL ? (float)hat : (float)(hat * (double)gain[c] + (double)bias[c]);
    }
}

static void layers_norm(float *y, float *mean_rstd, const float *x, const float *gain, const float *bias,
                        size_t n, size_t dim, float epsilon)
{
    for (size_t i = 0; i < n; i++)
        norm_row(y + i * dim, mean_rstd + 2 * i, x + i * dim, gain, bias, dim, epsilon);
}

static void layers_plain_norm(float *y, float *mean_rstd, const float *x, size_t ld, const uint32_t *list,
                              size_t n, size_t dim, float epsilon)
{
    for (size_t i = 0; i < n; i++)
        norm_row(y + i * dim, mean_rstd + 2 * i, x + (list == NULL ? i : list[i]) * ld, NULL, NULL, dim,
                 epsilon);
}

static void layers_norm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x,
                                 const float *mean_rstd, const float *gain, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * dim, *d = dy + i * dim;
        double mean = (double)mean_rstd[2 * i], rstd = (double)mean_rstd[2 * i + 1];
        double sum = 0, sum_hat = 0; /* sums of g = dy * gain, and of g times the normalised x */
        for (size_t c = 0; c < dim; c++) {
            double hat = ((double)row[c] - mean) * rstd, g = (double)d[c] * (double)gain[c];
            sum += g;
            sum_hat += g * hat;
            dgain[c] += (float)((double)d[c] * hat);
            dbias[c] += d[c];
        }
        for (size_t c = 0; c < dim; c++) {
            double hat = ((double)row[c] - mean) * rstd, g = (double)d[c] * (double)gain[c];
            dx[i * dim + c] += (float)(rstd * (g - sum / (double)dim - hat * (sum_hat / (double)dim)));
        }
    }
}

static void layers_gelu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * 0.5 * erfc(-(double)x[i] * SQRT_HALF));
}

static void layers_add_bias(float *y, size_t ld_y, const float *bias, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++)
            y[i * ld_y + c] += bias[c];
}

static void layers_add_bias_backward(float *dbias, const float *dy, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++)
            dbias[c] += dy[i * dim + c];
}

static void layers_convolve(float *y, size_t ld_y, const float *x, size_t ld_x, const float *filter,
                            size_t taps, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < taps; t++) {
            if (i + t < taps / 2 || i + t - taps / 2 >= n)
                continue;
            const float *row = x + (i + t - taps / 2) * ld_x;
            for (size_t c = 0; c < dim; c++)
                y[i * ld_y + c] = fmaf(filter[t], row[c], y[i * ld_y + c]);
        }
}

static void layers_dropout(float *y, const float *residual, const float *x, size_t n, uint64_t key,
                           uint64_t first, unsigned threshold, float scale)
{
    uint32_t words[4] = {0};
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            random_words(key, first + i / 8, words);
        uint32_t draw = words[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
        float kept = (draw >= threshold ? scale : 0.0f) * x[i];
        y[i] = residual == NULL ? kept : residual[i] + kept;
    }
}

static void layers_gelu_again(float *y, float *slope, const float *x, size_t n, uint64_t key, uint64_t first,
                              unsigned threshold, float scale)
{
    for (size_t i = 0; i < n; i++) {
        double t = (double)x[i], phi = exp(-0.5 * t * t) * SQRT_HALF / sqrt(PI);
        slope[i] = (float)(0.5 * erfc(-t * SQRT_HALF) + t * phi);
    }
    layers_gelu(y, x, n);
    if (threshold == 0)
        return;
    layers_dropout(y, NULL, y, n, key, first, threshold, scale);
    layers_dropout(slope, NULL, slope, n, key, first, threshold, scale);
}

static void layers_adamw(float *w, float *m, float *v, const float *g, size_t n, const struct adamw *step)
{
    double beta1 = (double)step->beta1, beta2 = (double)step->beta2, rate = (double)step->rate;
    for (size_t i = 0; i < n; i++) {
        double gradient = (double)g[i] * (double)step->gradient_scale;
        m[i] = (float)(beta1 * (double)m[i] + (1 - beta1) * gradient);
        v[i] = (float)(beta2 * (double)v[i] + (1 - beta2) * gradient * gradient);
        double first = (double)m[i] / (double)step->correction1;
        double second = (double)v[i] / (double)step->correction2;
        w[i] = (float)((double)w[i] * (1 - rate * (double)step->decay) -
                       rate * first / (sqrt(second) + (double)step->epsilon));
    }
}

#define REF_LAYERS                                                                                           \
    .layers.norm = layers_norm, .layers.plain_norm = layers_plain_norm,                                      \
    .layers.norm_backward = layers_norm_backward, .layers.gelu = layers_gelu,                                \
    .layers.add_bias = layers_add_bias, .layers.add_bias_backward = layers_add_bias_backward,                \
    .layers.convolve = layers_convolve, .layers.dropout = layers_dropout,                                    \
    .layers.gelu_again = layers_gelu_again, .layers.adamw = layers_adamw

#endif
