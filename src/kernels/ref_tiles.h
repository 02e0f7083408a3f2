/* The slots of stage tiles as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_TILES_H
#define KERNELS_REF_TILES_H

#include <math.h>
#include <string.h>

#include "kernels/ref_math.h"
#include "kernels/slots_tiles.h"

static void tiles_product(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col, const float *b,
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

static void tiles_transpose(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows,
                            size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[j * ld_out + i] = in[i * ld_in + j];
}

static size_t tiles_collisions(float *power, float *slope, const float *x, size_t ld, size_t rows,
                               size_t cols, const float *norm2_query, const float *norm2_key,
                               unsigned hash_bits)
{
    size_t near = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            /* In float32, so that every table counts the same near pairs. */
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

#define REF_TILES                                                                                            \
    .tiles.columns = KERNELS_TILE, .tiles.product = tiles_product, .tiles.transpose = tiles_transpose,       \
    .tiles.collisions = tiles_collisions

#endif
