/* The slots of stage softmax as plain loops, with sums in double. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_SOFTMAX_H
#define KERNELS_REF_SOFTMAX_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/slots_softmax.h"

static void softmax_step(float *s, size_t ld_s, size_t rows, size_t cols, float scale, float *row_max,
                         float *row_sum, float *factor)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = s + i * ld_s, largest = row_max[i];
        for (size_t j = 0; j < cols; j++)
            largest = fmaxf(largest, row[j]);
        factor[i] = (float)exp((double)scale * ((double)row_max[i] - (double)largest));
        double sum = 0;
        for (size_t j = 0; j < cols; j++) {
            row[j] = (float)exp((double)scale * ((double)row[j] - (double)largest));
            sum += (double)row[j];
        }
        row_sum[i] = (float)((double)row_sum[i] * (double)factor[i] + sum);
        row_max[i] = largest;
    }
}

static void softmax_again(float *s, size_t ld_s, size_t rows, size_t cols, float scale, const float *row_max,
                          const float *log_sum)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            s[i * ld_s + j] = (float)exp((double)scale * ((double)s[i * ld_s + j] - (double)row_max[i]) -
                                         (double)log_sum[i]);
}

static void softmax_largest(float *out, const float *x, size_t ld_x, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        out[i] = x[i * ld_x];
        for (size_t c = 1; c < cols; c++)
            out[i] = fmaxf(out[i], x[i * ld_x + c]);
    }
}

static void softmax_exp(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols,
                        float scale, const float *shift, float plus)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            y[i * ld_y + c] =
                (float)(exp((double)(scale * x[i * ld_x + c]) - (double)shift[i]) + (double)plus);
}

static void softmax_gradient(float *dp, size_t ld_dp, const float *p, size_t ld_p, size_t rows, size_t cols,
                             float scale, const float *delta)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            dp[i * ld_dp + j] = (float)((double)scale * (double)p[i * ld_p + j] *
                                        ((double)dp[i * ld_dp + j] - (double)delta[i]));
}

static void softmax_divergence(float *kl, float *dz, const float *psi, const float *z, size_t rows,
                               size_t cols, float weight)
{
    for (size_t i = 0; i < rows; i++, psi += cols, z += cols, dz += cols) {
        double largest = -INFINITY, sum = 0, mass = 0, total = 0;
        for (size_t c = 0; c < cols; c++) {
            largest = fmax(largest, (double)z[c]);
            mass += (double)psi[c];
        }
        bool some = mass >= FLT_MIN && mass <= FLT_MAX;
        for (size_t c = 0; c < cols; c++)
            sum += exp((double)z[c] - largest);
        for (size_t c = 0; c < cols; c++) {
            double log_p = (double)z[c] - largest - log(sum);
            double target = (double)psi[c] / mass;
            if (target > 0)
                total += target * (log(target) - log_p);
            dz[c] = some ? (float)((double)weight * (exp(log_p) - target)) : 0;
        }
        kl[i] = some ? (float)total : 0;
    }
}

static void softmax_below_largest(float *x, size_t ld, float *spread, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, squares = 0;
        float largest = x[c];
        for (size_t i = 0; i < rows; i++) {
            sum += (double)x[i * ld + c];
            largest = x[i * ld + c] > largest ? x[i * ld + c] : largest;
        }
        bool finite = isfinite((float)sum);
        for (size_t i = 0; i < rows; i++) {
            float *each = x + i * ld + c;
            double centred = (double)*each - sum / (double)rows;
            squares += centred * centred;
            *each = finite ? *each - largest : -INFINITY;
        }
        spread[c] = finite ? (float)squares : 0;
    }
}

#define REF_SOFTMAX                                                                                          \
    .softmax.step = softmax_step, .softmax.again = softmax_again, .softmax.largest = softmax_largest,        \
    .softmax.exp = softmax_exp, .softmax.gradient = softmax_gradient,                                        \
    .softmax.divergence = softmax_divergence, .softmax.below_largest = softmax_below_largest

#endif
