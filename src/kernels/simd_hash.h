/* Unit length and hash codes. The projection is a register-blocked product whose results never reach memory:
   a block of tokens against a block of planes of one group of hashes, one hash per lane, the sums in order of
   the coordinate as the contract wants; the signs become bits of the codes on the spot. The planes of one
   block stay in the first-level cache while HASH_CHUNK tokens pass. Measured on Zen 5: 94 to 98 % of a loop
   of multiply-adds in registers for 4 to 12 bits (n 4096, dim 64, 32 hashes), 89 to 100 % with AVX2.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_HASH_H
#define KERNELS_SIMD_HASH_H

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/simd_math.h"

enum {
    HASH_PLANES = 3, /* of the 9 bits usual here: three blocks of three */
    HASH_TOKENS = BLOCK_ROWS * BLOCK_VECTORS / HASH_PLANES,
    HASH_CHUNK = 64 /* a multiple of HASH_TOKENS: 16 KiB of rows at dim 64 beside 12 KiB of planes */
};

#define TINY_NORM 1e-12f
/* Sums of squares beyond these may have lost terms to float's range. */
#define SQUARES_LEAST 1e-25f
#define SQUARES_MOST  1e37f

/* |x|, and in double where the squares leave float's range. */
static float row_norm(const float *x, size_t dim)
{
    vf sum = v_zero();
    for (size_t c = 0; c < dim; c += VLEN) {
        vf part = v_get(x + c, dim - c);
        sum = v_fma(part, part, sum);
    }
    float squares = v_sum(sum);
    if (squares > SQUARES_LEAST && squares < SQUARES_MOST)
        return sqrtf(squares);
    double wide = 0;
    for (size_t c = 0; c < dim; c++)
        wide += (double)x[c] * (double)x[c];
    return (float)sqrt(wide);
}

static void unit_rows(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n,
                      size_t dim, const uint32_t *permutation, const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *from = x + i * ld_x;
        float *to = out + i * ld_out;
        norm[i] = row_norm(from, dim);
        vf length = v_set(norm[i] > TINY_NORM ? norm[i] : TINY_NORM);
        for (size_t c = 0; c < dim; c += VLEN) {
            size_t left = dim - c;
            vf turned = v_get(from + c, left);
            if (permutation != NULL) {
                if (left >= VLEN) {
                    turned = v_gather(from, permutation + c);
                } else {
                    float lanes[VLEN];
                    for (size_t l = 0; l < left; l++)
                        lanes[l] = from[permutation[c + l]];
                    turned = v_load_part(lanes, left, v_zero());
                }
            }
            if (sign != NULL)
                turned = v_mul(turned, v_get(sign + c, left));
            v_put(to + c, v_div(turned, length), left);
        }
        for (size_t c = dim; c < ld_out; c++)
            to[c] = 0;
    }
}

static void unit_rows_backward(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                               const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                               const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *u = unit + i * ld_unit, *g = du + i * ld_unit;
        float *to = dx + i * ld_dx;
        if (norm[i] < TINY_NORM)
            continue;
        vf sum = v_zero(), length = v_set(norm[i]);
        for (size_t c = 0; c < dim; c += VLEN)
            sum = v_fma(v_get(u + c, dim - c), v_get(g + c, dim - c), sum);
        vf dot = v_set(v_sum(sum));
        for (size_t c = 0; c < dim; c += VLEN) {
            size_t left = dim - c < VLEN ? dim - c : VLEN;
            vf d = v_div(v_fnma(v_get(u + c, left), dot, v_get(g + c, left)), length);
            if (sign != NULL)
                d = v_mul(d, v_get(sign + c, left));
            if (permutation == NULL) {
                v_put(to + c, v_add(v_get(to + c, left), d), left);
                continue;
            }
            float lanes[VLEN];
            v_store(lanes, d);
            for (size_t l = 0; l < left; l++)
                to[permutation[c + l]] += lanes[l];
        }
    }
}

/* Bits [bit, bit + planes) of VLEN hashes of HASH_TOKENS tokens into codes, rows of HASH_LANES. */
INLINE void hash_block(const size_t planes, uint32_t *codes, const float *const x[HASH_TOKENS],
                       const float *plane, size_t plane_step, size_t dim, size_t bit)
{
    vf sum[HASH_TOKENS][HASH_PLANES], right[HASH_PLANES];
    UNROLLED
    for (size_t t = 0; t < HASH_TOKENS; t++) {
        UNROLLED
        for (size_t p = 0; p < planes; p++)
            sum[t][p] = v_zero();
    }
    for (size_t c = 0; c < dim; c++) {
        UNROLLED
        for (size_t p = 0; p < planes; p++)
            right[p] = v_load(plane + p * plane_step + c * HASH_LANES);
        UNROLLED
        for (size_t t = 0; t < HASH_TOKENS; t++) {
            vf each = v_set(x[t][c]);
            UNROLLED
            for (size_t p = 0; p < planes; p++)
                sum[t][p] = v_fma(each, right[p], sum[t][p]);
        }
    }
    UNROLLED
    for (size_t t = 0; t < HASH_TOKENS; t++) {
        UNROLLED
        for (size_t p = 0; p < planes; p++)
            v_code_bit(codes + t * HASH_LANES, sum[t][p], (uint32_t)1 << (bit + p));
    }
}

/* All bits of one group of hashes for up to HASH_CHUNK tokens. */
static void hash_chunk(uint32_t codes[HASH_CHUNK][HASH_LANES], const float *x, size_t ld_x, size_t tokens,
                       size_t dim, const float *planes, size_t plane_step, size_t hash_bits)
{
    for (size_t t = 0; t < HASH_CHUNK; t++)
        for (size_t h = 0; h < HASH_LANES; h++)
            codes[t][h] = 0;
    size_t bit = 0;
    while (bit < hash_bits) {
        /* 4 planes left are 2 + 2: a block of one plane has too few sums to hide the latency. */
        size_t left = hash_bits - bit, some = left == 4 ? 2 : left < HASH_PLANES ? left : HASH_PLANES;
        for (size_t first = 0; first < tokens; first += HASH_TOKENS) {
            /* Tokens beyond the last are the last again; their codes are not used. */
            const float *row[HASH_TOKENS];
            for (size_t t = 0; t < HASH_TOKENS; t++)
                row[t] = x + (first + t < tokens ? first + t : tokens - 1) * ld_x;
            for (size_t lane = 0; lane < HASH_LANES; lane += VLEN) {
                const float *plane = planes + bit * plane_step + lane;
                if (some == 3)
                    hash_block(3, &codes[first][lane], row, plane, plane_step, dim, bit);
                else if (some == 2)
                    hash_block(2, &codes[first][lane], row, plane, plane_step, dim, bit);
                else
                    hash_block(1, &codes[first][lane], row, plane, plane_step, dim, bit);
            }
        }
        bit += some;
    }
}

static void hash_codes(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                       const float *planes, size_t num_hashes, size_t hash_bits)
{
    uint32_t block[HASH_CHUNK][HASH_LANES];
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    for (size_t first = 0; first < n; first += HASH_CHUNK) {
        size_t tokens = n - first < HASH_CHUNK ? n - first : HASH_CHUNK;
        for (size_t hash = 0; hash < num_hashes; hash += HASH_LANES) {
            size_t lanes = num_hashes - hash < HASH_LANES ? num_hashes - hash : HASH_LANES;
            hash_chunk(block, x + first * ld_x, ld_x, tokens, dim, planes + hash * dim,
                       groups * dim * HASH_LANES, hash_bits);
            for (size_t t = 0; t < tokens; t++) {
                size_t at = (first + t) * num_hashes + hash;
                if (wide)
                    for (size_t h = 0; h < lanes; h++)
                        ((uint32_t *)codes)[at + h] = block[t][h];
                else
                    for (size_t h = 0; h < lanes; h++)
                        ((uint16_t *)codes)[at + h] = (uint16_t)block[t][h];
            }
        }
    }
}

#endif
