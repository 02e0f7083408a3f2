/* The slots of tiles of the exact mechanisms, float32 and bfloat16, as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_TILE_H
#define KERNELS_REF_TILE_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ref_math.h"

static void tile_product(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col, const float *b,
                         size_t ld_b, size_t rows, size_t cols, size_t depth, bool add)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)c[i * ld_c + j] : 0;
            for (size_t k = 0; k < depth; k++)
                sum += (double)a[i * a_row + k * a_col] * (double)b[k * ld_b + j];
            c[i * ld_c + j] = (float)sum;
        }
}

static void tile_transpose(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[j * ld_out + i] = in[i * ld_in + j];
}

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

static void scale_rows(float *x, size_t ld_x, const float *factor, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            x[i * ld_x + c] *= factor[i];
}

static void scale_both(float *x, size_t ld_x, const float *of_row, const float *of_col, size_t rows,
                       size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            x[i * ld_x + c] = x[i * ld_x + c] * of_row[i] * of_col[c];
}

static void row_dots(float *out, const float *a, size_t ld_a, const float *b, size_t ld_b, size_t rows,
                     size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)a[i * ld_a + c] * (double)b[i * ld_b + c];
        out[i] = (float)sum;
    }
}

static size_t collision_tile(float *power, float *slope, const float *x, size_t ld, size_t rows, size_t cols,
                             const float *norm2_query, const float *norm2_key, unsigned hash_bits)
{
    size_t near = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            /* In float32, so that every table counts the same pairs. */
            float norms = norm2_query[i] + norm2_key[j], dot = x[i * ld + j];
            float u2 = fmaxf(norms - 2 * dot, 0), v2 = fmaxf(norms + 2 * dot, 0);
            bool is_near = u2 < COLLISION_NEAR || v2 < COLLISION_NEAR;
            double p = 1 - 2 * atan2(sqrt((double)u2), sqrt((double)v2)) / PI;
            power[i * ld + j] = (float)pow(p, hash_bits);
            if (slope != NULL)
                slope[i * ld + j] = is_near ? 0
                                            : (float)(hash_bits * pow(p, hash_bits - 1.0) /
                                                      (PI * sqrt((double)u2 * (double)v2) / 2));
            near += is_near;
        }
    return near;
}

#endif
