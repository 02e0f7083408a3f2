/* Feature maps, a vector at a time. Bound by arithmetic: about 15 operations per vector of elu, 30 per vector
   of sines and cosines.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_FEATURES_H
#define KERNELS_SIMD_FEATURES_H

#include "kernels/simd_math.h"
#include "kernels/slots_features.h"

static void features_elu(float *y, size_t ld_y, const float *x, size_t ld_x, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c += VLEN) {
            vf each = v_get(x + i * ld_x + c, cols - c);
            v_put(y + i * ld_y + c, v_add(v_max(v_zero(), each), v_exp(v_min(v_zero(), each))), cols - c);
        }
}

static void features_elu_backward(float *dx, size_t ld_dx, const float *dy, const float *y, size_t ld_y,
                                  size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c += VLEN) {
            size_t left = cols - c, at = i * ld_y + c;
            vf slope = v_min(v_get(y + at, left), v_set(1.0f));
            v_put(dx + i * ld_dx + c, v_fma(v_get(dy + at, left), slope, v_get(dx + i * ld_dx + c, left)),
                  left);
        }
}

/* x = n pi + r with |r| <= pi / 2, pi in three pieces; sine and cosine of r by Taylor's sums; both change
   sign if n is odd. */
INLINE vf sines_of(vf x, vf scale, vf *cosine)
{
    static const float of_sine[] = {-1.66666667e-1f, 8.33333333e-3f, -1.98412698e-4f, 2.75573192e-6f,
                                    -2.50521084e-8f},
                       of_cosine[] = {-0.5f,          4.16666667e-2f,  -1.38888889e-3f,
                                      2.48015873e-5f, -2.75573192e-7f, 2.08767570e-9f};
    vf n = v_round(v_mul(x, v_set(0.318309886f)));
    vf half = v_mul(n, v_set(0.5f)), odd = v_sub(half, v_round(half)); /* 0, or +-1/2 if n is odd */
    vf quarter = v_min(v_mul(odd, odd), v_set(0.25f)); /* this order drops a NaN, here and below */
    vf sign = v_mul(scale, v_fnma(quarter, v_set(8.0f), v_set(1.0f)));
    vf r = v_fnma(n, v_set(3.140625f), x);
    r = v_fnma(n, v_set(1.50995799e-7f), v_fnma(n, v_set(9.67502594e-4f), r));
    r = v_min(v_max(r, v_set(-1.6f)), v_set(1.6f));
    vf s = v_mul(r, r), slope = v_mul(r, s);
    *cosine = v_mul(sign, v_fma(v_polynomial(s, of_cosine, 6), s, v_set(1.0f)));
    return v_mul(sign, v_fma(v_polynomial(s, of_sine, 5), slope, r));
}

static void features_sines(float *sine, float *cosine, size_t ld, const float *x, size_t ld_x, size_t rows,
                           size_t cols, float scale)
{
    vf scales = v_set(scale), of_angle;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c += VLEN) {
            v_put(sine + i * ld + c, sines_of(v_get(x + i * ld_x + c, cols - c), scales, &of_angle),
                  cols - c);
            v_put(cosine + i * ld + c, of_angle, cols - c);
        }
}

#define SIMD_FEATURES                                                                                        \
    .features.elu = features_elu, .features.elu_backward = features_elu_backward,                            \
    .features.sines = features_sines

#endif
