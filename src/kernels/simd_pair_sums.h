/* Dot products or squared distances of a few rows with a few keys: all sums stay in registers, so that each
   row read serves several, and the sums over lanes are taken together. There is code for each number
   of rows and keys, so no row repeats in place of a missing one. That was no faster than blocks of four by
   four with AVX-512, and is simpler. The limit is arithmetic: 2 dim operations per pair.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PAIR_SUMS_H
#define KERNELS_SIMD_PAIR_SUMS_H

#include "kernels/simd_math.h"

enum {
    PAIR_KEYS = BLOCK_VECTORS > 2 ? 6 : 5,   /* at most, of a block */
    SUMS_MOST = BLOCK_VECTORS > 2 ? 24 : 10, /* in registers, beside the rows: 32 or 16 registers */
    PAIR_QUERIES = 16,                       /* at most, of a block */
    PAIR_MOST = PAIR_QUERIES * PAIR_KEYS,
    PAIR_PADDED = PAIR_MOST + VLEN /* of an array of values of a block, which are written by four */
};

/* One side of a block: rows of a matrix by index, and the gradient of the same shape. */
struct pair_side {
    const float *x;
    float *dx;
    size_t ld, count;
    const uint32_t *rows;
};

/* Two matrices of which a block multiplies rows. */
struct pair_factors {
    const float *a, *b;
    size_t ld_a, ld_b, dim;
};

/* sum + a b, or sum + (a - b)^2 */
INLINE vf pair_part(const bool distance, vf a, vf b, vf sum)
{
    vf c = v_sub(a, b);
    return distance ? v_fma(c, c, sum) : v_fma(a, b, sum);
}

/* One vector of columns. Rows are loaded into variables first: a compiler that folds loads into the
   multiplications loads each row of b once per query. */
INLINE void pair_parts(const bool distance, const size_t queries, const size_t keys, vf *sum,
                       const float *const *a, const float *const *b, size_t c, size_t left)
{
    vf own[4];
    UNROLLED
    for (size_t q = 0; q < queries; q++)
        own[q] = v_get(a[q] + c, left);
    UNROLLED
    for (size_t k = 0; k < keys; k++) {
        vf other = v_get(b[k] + c, left);
        UNROLLED
        for (size_t q = 0; q < queries; q++)
            sum[q * keys + k] = pair_part(distance, own[q], other, sum[q * keys + k]);
    }
}

/* out[q * keys + k] = factor times the sum of query q and key k; up to three more floats are written. */
INLINE void pair_sums_few(const bool distance, const size_t queries, const size_t keys, float *out,
                          const struct pair_factors *rows, const uint32_t *query, const float *const *b,
                          float factor)
{
    static const float none[4];
    const size_t count = queries * keys;
    vf sum[SUMS_MOST > 12 ? SUMS_MOST + 4 : 16];
    const float *a[4];
    size_t c = 0, i = 0;
    UNROLLED
    for (size_t q = 0; q < queries; q++)
        a[q] = rows->a + query[q] * rows->ld_a;
    UNROLLED
    for (size_t s = 0; s < count; s++)
        sum[s] = v_zero();
    for (; c + VLEN <= rows->dim; c += VLEN)
        pair_parts(distance, queries, keys, sum, a, b, c, VLEN);
    if (c < rows->dim)
        pair_parts(distance, queries, keys, sum, a, b, c, rows->dim - c);
    UNROLLED
    for (size_t s = count; s % 4 > 0; s++)
        sum[s] = sum[count - 1];
    if (count >= 16) {
        vf first[4][4];
        UNROLLED
        for (; i < 16; i++)
            first[i / 4][i % 4] = sum[i];
        v_sum4x4(out, 4, first, none, factor);
    }
    UNROLLED
    for (; i < count; i += 4)
        v_sum4(out + i, sum[i], sum[i + 1], sum[i + 2], sum[i + 3], 0.0f, factor);
}

INLINE void pair_sums_keys(const bool distance, const size_t keys, float *out,
                           const struct pair_factors *rows, const uint32_t *query, size_t queries,
                           const uint32_t *key, float factor)
{
    const float *b[PAIR_KEYS];
    size_t q = 0;
    UNROLLED
    for (size_t k = 0; k < keys; k++)
        b[k] = rows->b + key[k] * rows->ld_b;
    if (4 * keys <= SUMS_MOST)
        for (; q + 4 <= queries; q += 4)
            pair_sums_few(distance, 4, keys, out + q * keys, rows, query + q, b, factor);
    for (; q + 2 <= queries; q += 2)
        pair_sums_few(distance, 2, keys, out + q * keys, rows, query + q, b, factor);
    if (q < queries)
        pair_sums_few(distance, 1, keys, out + q * keys, rows, query + q, b, factor);
}

/* CALL(keys), with keys as a constant from 1 to PAIR_KEYS. */
#define FOR_PAIR_KEYS(keys, CALL)                                                                            \
    switch (keys) {                                                                                          \
    case 1:                                                                                                  \
        CALL(1);                                                                                             \
        break;                                                                                               \
    case 2:                                                                                                  \
        CALL(2);                                                                                             \
        break;                                                                                               \
    case 3:                                                                                                  \
        CALL(3);                                                                                             \
        break;                                                                                               \
    case 4:                                                                                                  \
        CALL(4);                                                                                             \
        break;                                                                                               \
    case 5:                                                                                                  \
        CALL(5);                                                                                             \
        break;                                                                                               \
    default:                                                                                                 \
        CALL(PAIR_KEYS);                                                                                     \
        break;                                                                                               \
    }

/* out[q * keys + k] = <a, b> factor of all pairs of a block. */
static void pair_products(float *out, const struct pair_factors *rows, const struct pair_side *queries,
                          const struct pair_side *keys, float factor)
{
#define CALL(some) pair_sums_keys(false, some, out, rows, queries->rows, queries->count, keys->rows, factor)
    FOR_PAIR_KEYS(keys->count, CALL)
#undef CALL
}

/* out[q * keys + k] = |a - b|^2 of all pairs of a block. */
static void pair_distances(float *out, const struct pair_factors *rows, const struct pair_side *queries,
                           const struct pair_side *keys)
{
#define CALL(some) pair_sums_keys(true, some, out, rows, queries->rows, queries->count, keys->rows, 1.0f)
    FOR_PAIR_KEYS(keys->count, CALL)
#undef CALL
}

#endif
