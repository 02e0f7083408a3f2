/* The slots of stage hash, except transforms, as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_HASH_H
#define KERNELS_REF_HASH_H

#include <math.h>
#include <string.h>

#include "kernels/ref_math.h"
#include "kernels/slots_hash.h"

static size_t permuted(const uint32_t *permutation, size_t c)
{
    return permutation == NULL ? c : permutation[c];
}

static float sign_of(const float *sign, size_t c)
{
    return sign == NULL ? 1.0f : sign[c];
}

static void hash_unit(float *out, size_t ld_out, float *norm, const float *x, size_t ld_x, size_t n,
                      size_t dim, const uint32_t *permutation, const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * ld_x;
        double sum = 0;
        for (size_t c = 0; c < dim; c++)
            sum += (double)row[c] * (double)row[c];
        double length = sqrt(sum), divisor = length > TINY_NORM ? length : TINY_NORM;
        norm[i] = (float)length;
        for (size_t c = 0; c < ld_out; c++)
            out[i * ld_out + c] =
                c < dim ? (float)((double)(sign_of(sign, c) * row[permuted(permutation, c)]) / divisor)
                        : 0.0f;
    }
}

static void hash_unit_backward(float *dx, size_t ld_dx, const float *du, const float *unit, size_t ld_unit,
                               const float *norm, size_t n, size_t dim, const uint32_t *permutation,
                               const float *sign)
{
    for (size_t i = 0; i < n; i++) {
        const float *u = unit + i * ld_unit, *g = du + i * ld_unit;
        if ((double)norm[i] < TINY_NORM)
            continue;
        double dot = 0;
        for (size_t c = 0; c < dim; c++)
            dot += (double)u[c] * (double)g[c];
        for (size_t c = 0; c < dim; c++)
            dx[i * ld_dx + permuted(permutation, c)] +=
                sign_of(sign, c) * (float)(((double)g[c] - (double)u[c] * dot) / (double)norm[i]);
    }
}

static void hash_codes(void *codes, bool wide, const float *x, size_t ld_x, size_t n, size_t dim,
                       const float *planes, size_t num_hashes, size_t hash_bits)
{
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t code = 0;
            for (size_t b = 0; b < hash_bits; b++) {
                const float *plane =
                    planes + (b * groups + h / HASH_LANES) * dim * HASH_LANES + h % HASH_LANES;
                float sum = 0;
                for (size_t c = 0; c < dim; c++)
                    sum = fmaf(x[i * ld_x + c], plane[c * HASH_LANES], sum);
                code |= (uint32_t)(sum > 0) << b;
            }
            if (wide)
                ((uint32_t *)codes)[i * num_hashes + h] = code;
            else
                ((uint16_t *)codes)[i * num_hashes + h] = (uint16_t)code;
        }
}

/* The 16-bit form of x in a projection. */
static uint32_t half_of(enum hash_projection projection, float x)
{
    if (projection == HASH_INT16_DP) {
        float most = 32767.0f;
        return (uint32_t)lrintf(x > most ? most : x < -most ? -most : x) & 0xffff;
    }
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* The nearest integer, clamped to +-127. */
static int byte_of(float x)
{
    return (int)lrintf(x > 127.0f ? 127.0f : x < -127.0f ? -127.0f : x);
}

/* The factor that scales the largest of `count` numbers to 127. */
static float byte_scale(const float *x, size_t step, size_t count)
{
    float largest = 0;
    for (size_t c = 0; c < count; c++)
        largest = fmaxf(largest, fabsf(x[c * step]));
    return largest > 0 ? 127.0f / largest : 0.0f;
}

static void byte_row(uint32_t *out, const float *row, size_t dim, size_t padded)
{
    float scale = byte_scale(row, 1, dim);
    for (size_t c = 0; c < padded; c++) {
        uint32_t byte = (uint32_t)(128 + (c < dim ? byte_of(row[c] * scale) : 0));
        out[c / 4] = (c % 4 == 0 ? 0 : out[c / 4]) | byte << (8 * (c % 4));
    }
}

static void byte_plane(uint32_t *out, const float *from, size_t dim, const uint32_t *permutation,
                       const float *sign)
{
    float scale = byte_scale(from, HASH_LANES, dim);
    uint32_t *start = out + (dim + 3) / 4 * HASH_LANES;
    int sum = 0;
    for (size_t c = 0; c < dim; c++) {
        int byte = byte_of(from[permutation[c] * HASH_LANES] * (sign[c] * scale));
        uint32_t *word = &out[c / 4 * HASH_LANES];
        *word = (c % 4 == 0 ? 0 : *word) | ((uint32_t)byte & 0xff) << (8 * (c % 4));
        sum += byte;
    }
    *start = (uint32_t)(-128 * sum);
}

static void hash_pack_rows(uint32_t *out, size_t ld_out, float *squares, enum hash_projection projection,
                           const float *x, size_t ld_x, size_t n, size_t dim)
{
    size_t padded = (dim + HASH_LANES - 1) / HASH_LANES * HASH_LANES;
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * ld_x;
        float sum[HASH_LANES] = {0}, scale = 1;
        for (size_t c = 0; c < dim; c++)
            sum[c % HASH_LANES] = fmaf(row[c], row[c], sum[c % HASH_LANES]);
        for (size_t step = HASH_LANES / 2; step > 0; step /= 2)
            for (size_t l = 0; l < step; l++)
                sum[l] += sum[l + step];
        squares[i] = sum[0];
        if (projection == HASH_INT8_DP) {
            byte_row(out + i * ld_out, row, dim, padded);
            continue;
        }
        if (projection == HASH_INT16_DP)
            scale = sum[0] > 0 ? 32767.0f / sqrtf(sum[0]) : 0.0f;
        for (size_t c = 0; c < padded; c += 2) {
            uint32_t low = c < dim ? half_of(projection, row[c] * scale) : 0;
            uint32_t high = c + 1 < dim ? half_of(projection, row[c + 1] * scale) : 0;
            out[i * ld_out + c / 2] = low | high << 16;
        }
    }
}

static void hash_pack_planes(void *out, enum hash_projection projection, const float *planes, size_t count,
                             size_t dim, const uint32_t *permutation, const float *sign)
{
    size_t pairs = (dim + 1) / 2;
    float *floats = out;
    uint32_t *words = out;
    for (size_t group = 0; group < count; group++)
        for (size_t lane = 0; lane < HASH_LANES; lane++) {
            const float *from = planes + group * dim * HASH_LANES + lane;
            if (projection == HASH_INT8_DP) {
                byte_plane(words + group * ((dim + 3) / 4 + 1) * HASH_LANES + lane, from, dim, permutation,
                           sign);
                continue;
            }
            for (size_t c = 0; c < dim; c++) {
                float value = from[permutation[c] * HASH_LANES] * sign[c];
                if (projection == HASH_F32) {
                    floats[(group * dim + c) * HASH_LANES + lane] = value;
                    continue;
                }
                uint32_t half = half_of(projection, projection == HASH_INT16_DP ? value * 32767.0f : value);
                uint32_t *word = &words[(group * pairs + c / 2) * HASH_LANES + lane];
                *word = c % 2 == 0 ? half : *word | half << 16;
            }
        }
}

/* Flushes numbers under `least` to 0, as vdpbf16ps does under 2^-126 with operands and results. */
static float flushed(float x, float least)
{
    return fabsf(x) < least ? copysignf(0, x) : x;
}

/* The bfloat16 in the high half of a word. */
static float high_half(uint32_t word)
{
    float x;
    word &= 0xffff0000u;
    memcpy(&x, &word, sizeof x);
    return flushed(x, 0x1p-126f);
}

/* sum + a b, where sums are times 2^32: results are rounded to 24 bits and then flushed, but fmaf rounds
   those under 2^-126 to fewer bits. */
static float flushed_sum(float a, float b, float sum)
{
    return flushed(fmaf(0x1p32f * a, b, sum), 0x1p-94f);
}

static bool dp_bit(enum hash_projection projection, const uint32_t *row, const uint32_t *plane, size_t words)
{
    int32_t whole = projection == HASH_INT8_DP ? (int32_t)plane[words * HASH_LANES] : 0;
    float sum = 0;
    for (size_t w = 0; w < words; w++) {
        uint32_t a = row[w], b = plane[w * HASH_LANES];
        if (projection == HASH_INT8_DP) {
            for (int byte = 0; byte < 32; byte += 8)
                whole += (int32_t)(a >> byte & 0xff) * (int8_t)(b >> byte & 0xff);
        } else if (projection == HASH_INT16_DP) {
            whole += (int16_t)(a & 0xffff) * (int16_t)(b & 0xffff) + (int16_t)(a >> 16) * (int16_t)(b >> 16);
        } else {
            sum = flushed_sum(high_half(a), high_half(b), sum);
            sum = flushed_sum(high_half(a << 16), high_half(b << 16), sum);
        }
    }
    return whole > 0 || sum > 0;
}

static void hash_codes_dp(void *codes, bool wide, enum hash_projection projection, const uint32_t *rows,
                          size_t ld, size_t n, size_t words, const uint32_t *planes, size_t num_hashes,
                          size_t hash_bits)
{
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    size_t plane_words = words + (projection == HASH_INT8_DP);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t code = 0;
            for (size_t b = 0; b < hash_bits; b++) {
                const uint32_t *plane =
                    planes + (b * groups + h / HASH_LANES) * plane_words * HASH_LANES + h % HASH_LANES;
                code |= (uint32_t)dp_bit(projection, rows + i * ld, plane, words) << b;
            }
            if (wide)
                ((uint32_t *)codes)[i * num_hashes + h] = code;
            else
                ((uint16_t *)codes)[i * num_hashes + h] = (uint16_t)code;
        }
}

#define REF_HASH                                                                                             \
    .hash.unit = hash_unit, .hash.unit_backward = hash_unit_backward, .hash.codes = hash_codes,              \
    .hash.pack_rows = hash_pack_rows, .hash.pack_planes = hash_pack_planes, .hash.codes_dp = hash_codes_dp

#endif
