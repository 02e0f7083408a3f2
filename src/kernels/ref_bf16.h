/* The slots of stage bf16 as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_BF16_H
#define KERNELS_REF_BF16_H

#include <math.h>
#include <string.h>

#include "kernels/slots_bf16.h"

static float widened(bf16 a)
{
    uint32_t bits = (uint32_t)a << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static bf16 rounded(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    if (isnan(a))
        return (bf16)((bits | 0x400000) >> 16);
    return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void bf16_product(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                         size_t rows, size_t cols, size_t pairs, bool add)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)c[i * ld_c + j] : 0;
            for (size_t k = 0; k < 2 * pairs; k++)
                sum += (double)widened(a[i * ld_a + k]) * (double)widened(b[k / 2 * ld_b + 2 * j + k % 2]);
            c[i * ld_c + j] = (float)sum;
        }
}

static void bf16_round(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            out[i * ld_out + c] = rounded(in[i * ld_in + c]);
}

static void bf16_widen(float *out, size_t ld_out, const bf16 *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            out[i * ld_out + c] = widened(in[i * ld_in + c]);
}

static void bf16_interleave(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t k = 0; k < rows + rows % 2; k++)
        for (size_t j = 0; j < cols; j++)
            out[k / 2 * ld_out + 2 * j + k % 2] = k < rows ? rounded(in[k * ld_in + j]) : 0;
}

#define REF_BF16                                                                                             \
    .bf16.how = "by widening", .bf16.product = bf16_product, .bf16.round = bf16_round,                       \
    .bf16.widen = bf16_widen, .bf16.interleave = bf16_interleave

#endif
