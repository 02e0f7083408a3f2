/* The slots of hashes that share planes, as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_POOL_H
#define KERNELS_REF_POOL_H

#include <math.h>

#include "kernels/ref_hash.h"
#include "kernels/ref_math.h"
#include "kernels/slots_hash.h"

static void put_code(void *codes, bool wide, size_t at, uint32_t code)
{
    if (wide)
        ((uint32_t *)codes)[at] = code;
    else
        ((uint16_t *)codes)[at] = (uint16_t)code;
}

static bool f32_bit(const float *row, const float *plane, size_t dim)
{
    float sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum = fmaf(row[c], plane[c * HASH_LANES], sum);
    return sum > 0;
}

static void hash_codes_dense(void *codes, bool wide, enum hash_projection projection, const void *rows,
                             size_t ld, size_t n, size_t words, const void *planes, size_t num_hashes,
                             size_t hash_bits)
{
    size_t plane_words = words + (projection == HASH_INT8_DP);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t code = 0;
            for (size_t b = 0; b < hash_bits; b++) {
                size_t p = h * hash_bits + b;
                size_t at = p / HASH_LANES * plane_words * HASH_LANES + p % HASH_LANES;
                bool bit = projection == HASH_F32
                               ? f32_bit((const float *)rows + i * ld, (const float *)planes + at, words)
                               : dp_bit(projection, (const uint32_t *)rows + i * ld,
                                        (const uint32_t *)planes + at, words);
                code |= (uint32_t)bit << b;
            }
            put_code(codes, wide, i * num_hashes + h, code);
        }
}

static void hash_pooled_codes(void *codes, bool wide, const void *pool, size_t n, size_t r, size_t num_hashes,
                              size_t hash_bits, uint32_t *work)
{
    (void)work;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t code = 0;
            for (size_t b = 0; b < hash_bits; b++)
                code |= (uint32_t)code_at(pool, wide, i * r + (h % r + b * (h / r)) % r) & (uint32_t)1 << b;
            put_code(codes, wide, i * num_hashes + h, code);
        }
}

#define REF_POOL .hash.codes_dense = hash_codes_dense, .hash.pooled_codes = hash_pooled_codes

#endif
