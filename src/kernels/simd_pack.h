/* Rows and planes for the projections that multiply pairs of 16-bit or groups of four 8-bit numbers, and
   permuted planes of a head. One pass each, bound by loads and stores: a row of 64 takes about 30
   instructions, compared with 600 for its projection; the planes of a head (32 hashes of 9 bits, dim 64) are
   read once from the second-level cache.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PACK_H
#define KERNELS_SIMD_PACK_H

#include <math.h>

#include "kernels/simd_math.h"
#include "kernels/slots_hash.h"

/* The fixed-point value of length 1; also the bound of a coordinate. */
#define PACK_ONE 32767.0f

/* The largest magnitude of a byte. */
#define PACK_BYTE 127.0f

/* Every lane as 16 bits in its low half, the high half 0. Rounding to bfloat16 adds just under half a unit in
   the last place plus the last bit, which carries exactly when round-to-nearest-even rounds up. */
INLINE vu pack_half(const enum hash_projection projection, vf x)
{
    if (projection == HASH_INT16_DP)
        return u_and(u_round(v_min(v_set(PACK_ONE), v_max(v_set(-PACK_ONE), x))), u_set(0xffff));
    vu last = u_and(u_right(u_from(x), 16), u_set(1));
    return u_right(u_add(u_from(x), u_add(last, u_set(0x7fff))), 16);
}

/* The vector at p + c, of which dim - c floats exist, possibly none. */
INLINE vf pack_get(const float *p, size_t c, size_t dim)
{
    return c < dim ? v_get(p + c, dim - c) : v_zero();
}

/* The nearest integer in every lane, clamped to +-127. */
INLINE vu pack_byte(vf x)
{
    return u_round(v_min(v_set(PACK_BYTE), v_max(v_set(-PACK_BYTE), x)));
}

INLINE void pack_row(const enum hash_projection projection, uint32_t *out, float *squares, const float *x,
                     size_t dim)
{
    enum { VECTORS = HASH_LANES / VLEN };
    uint16_t *halves = (uint16_t *)(void *)out; /* little-endian: the low half comes first */
    uint8_t *bytes = (uint8_t *)(void *)out;
    vf sum[VECTORS], largest = v_zero();
    for (size_t v = 0; v < VECTORS; v++)
        sum[v] = v_zero();
    for (size_t c = 0; c < dim; c += HASH_LANES)
        for (size_t v = 0; v < VECTORS; v++) {
            vf part = pack_get(x, c + v * VLEN, dim);
            sum[v] = v_fma(part, part, sum[v]);
            if (projection == HASH_INT8_DP)
                largest = v_max(v_abs(part), largest);
        }
    for (size_t v = VECTORS / 2; v > 0; v /= 2)
        for (size_t l = 0; l < v; l++)
            sum[l] = v_add(sum[l], sum[l + v]);
    *squares = v_sum(sum[0]);
    float scale = 1.0f;
    if (projection == HASH_INT16_DP)
        scale = *squares > 0 ? PACK_ONE / sqrtf(*squares) : 0.0f;
    if (projection == HASH_INT8_DP) {
        float most = v_largest(largest);
        scale = most > 0 ? PACK_BYTE / most : 0.0f;
    }
    for (size_t c = 0; c < dim; c += HASH_LANES)
        for (size_t v = 0; v < VECTORS; v++) {
            vf part = v_mul(pack_get(x, c + v * VLEN, dim), v_set(scale));
            if (projection == HASH_INT8_DP)
                u_put_bytes(bytes + c + v * VLEN, u_add(pack_byte(part), u_set(128)));
            else
                u_put_shorts(halves + c + v * VLEN, pack_half(projection, part), VLEN);
        }
}

static void hash_pack_rows(uint32_t *out, size_t ld_out, float *squares, enum hash_projection projection,
                           const float *x, size_t ld_x, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        if (projection == HASH_INT16_DP)
            pack_row(HASH_INT16_DP, out + i * ld_out, squares + i, x + i * ld_x, dim);
        else if (projection == HASH_INT8_DP)
            pack_row(HASH_INT8_DP, out + i * ld_out, squares + i, x + i * ld_x, dim);
        else
            pack_row(HASH_BF16_DP, out + i * ld_out, squares + i, x + i * ld_x, dim);
}

/* Row c of the permuted planes of a group, VLEN lanes. */
INLINE vf pack_permuted(const float *planes, size_t c, size_t lane, const uint32_t *permutation,
                        const float *sign, vf scale)
{
    return v_mul(v_load(planes + permutation[c] * HASH_LANES + lane), v_mul(v_set(sign[c]), scale));
}

INLINE void pack_planes(const enum hash_projection projection, uint32_t *out, const float *planes, size_t dim,
                        const uint32_t *permutation, const float *sign)
{
    const vf scale = v_set(projection == HASH_INT16_DP ? PACK_ONE : 1.0f);
    for (size_t c = 0; c < dim; c += 2)
        for (size_t lane = 0; lane < HASH_LANES; lane += VLEN) {
            vf first = pack_permuted(planes, c, lane, permutation, sign, scale);
            vf second = c + 1 < dim ? pack_permuted(planes, c + 1, lane, permutation, sign, scale) : v_zero();
            vu low = pack_half(projection, first);
            u_store(out + c / 2 * HASH_LANES + lane, u_or(low, u_left(pack_half(projection, second), 16)));
        }
}

/* Packs four rows at a time, each lane scaled by its own largest, and the start values of the sums. */
static void pack_byte_planes(uint32_t *out, const float *planes, size_t dim, const uint32_t *permutation,
                             const float *sign)
{
    size_t words = (dim + 3) / 4;
    for (size_t lane = 0; lane < HASH_LANES; lane += VLEN) {
        vf largest = v_zero(), zero = v_zero();
        for (size_t c = 0; c < dim; c++)
            largest = v_max(v_abs(v_load(planes + c * HASH_LANES + lane)), largest);
        vf scale = v_select(v_less(zero, largest), v_div(v_set(PACK_BYTE), largest), zero);
        vu start = u_set(0);
        for (size_t w = 0; w < words; w++) {
            vu word = u_set(0);
            for (size_t c = 4 * w; c < 4 * w + 4; c++) {
                vu byte = u_set(0);
                if (c < dim)
                    byte = pack_byte(pack_permuted(planes, c, lane, permutation, sign, scale));
                start = u_add(start, byte);
                word = u_or(u_right(word, 8), u_left(byte, 24));
            }
            u_store(out + w * HASH_LANES + lane, word);
        }
        u_store(out + words * HASH_LANES + lane, u_sub(u_set(0), u_left(start, 7)));
    }
}

static void hash_pack_planes(void *out, enum hash_projection projection, const float *planes, size_t count,
                             size_t dim, const uint32_t *permutation, const float *sign)
{
    size_t pairs = (dim + 1) / 2;
    for (size_t group = 0; group < count; group++) {
        const float *from = planes + group * dim * HASH_LANES;
        uint32_t *words = (uint32_t *)out + group * pairs * HASH_LANES;
        if (projection == HASH_INT16_DP)
            pack_planes(HASH_INT16_DP, words, from, dim, permutation, sign);
        else if (projection == HASH_BF16_DP)
            pack_planes(HASH_BF16_DP, words, from, dim, permutation, sign);
        else if (projection == HASH_INT8_DP)
            pack_byte_planes((uint32_t *)out + group * ((dim + 3) / 4 + 1) * HASH_LANES, from, dim,
                             permutation, sign);
        else
            for (size_t c = 0; c < dim; c++)
                for (size_t lane = 0; lane < HASH_LANES; lane += VLEN)
                    v_store((float *)out + (group * dim + c) * HASH_LANES + lane,
                            pack_permuted(from, c, lane, permutation, sign, v_set(1.0f)));
    }
}

#define SIMD_PACK .hash.pack_rows = hash_pack_rows, .hash.pack_planes = hash_pack_planes

#endif
