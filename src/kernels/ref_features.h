/* Feature maps as plain loops in double.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_FEATURES_H
#define KERNELS_REF_FEATURES_H

#include <math.h>

#include "kernels/slots_features.h"

static void features_elu(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++) {
            double each = (double)x[i * ld_x + c];
            y[i * ld_y + c] = (float)(each > 0 ? each + 1 : exp(each));
        }
}

static void features_elu_backward(float *dx, size_t ld_dx, const float *dy, const float *y, size_t ld_y,
                                  size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            dx[i * ld_dx + c] += dy[i * ld_y + c] * (y[i * ld_y + c] < 1 ? y[i * ld_y + c] : 1);
}

static void features_sines(float *sine, float *cosine, size_t ld, const float *x, size_t ld_x, size_t rows,
                           size_t cols, float scale)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++) {
            double each = isfinite(x[i * ld_x + c]) ? (double)x[i * ld_x + c] : 0;
            sine[i * ld + c] = (float)((double)scale * sin(each));
            cosine[i * ld + c] = (float)((double)scale * cos(each));
        }
}

#define REF_FEATURES                                                                                         \
    .features.elu = features_elu, .features.elu_backward = features_elu_backward,                            \
    .features.sines = features_sines

#endif
