/* Gradients of the pairs that share a bucket, in blocks of PAIR_QUERIES x PAIR_KEYS. First the weight of
   every pair of the block: dot products two queries by four keys at a time, so that each row read serves
   several and four sums of lanes are made together. Then the two products W K and W^T Q, with a few rows of
   the result in registers while the other side passes by. Per pair 2 value_dim + 4 dim operations and about
   one shuffle and a half. A row's result is one chain over its partners in order, wherever the blocks are
   cut. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PAIRS_H
#define KERNELS_SIMD_PAIRS_H

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/simd_math.h"

enum { PAIR_QUERIES = 16, PAIR_KEYS = 32, PAIR_ROWS = 4 };

/* One side of a block: rows of a matrix by number, and the gradient of the same shape. */
struct pair_side {
    const float *x;
    float *dx;
    size_t ld, count;
    const uint32_t *rows;
};

/* out[q * PAIR_KEYS + k] = sum over c of part(query row, key row)[c] for `queries` <= 2 rows and all keys of
   a block, in fours; `part` is a product, a squared difference or a squared sum. */
enum pair_form { PAIR_DOT, PAIR_DIFFERENCE, PAIR_SUM };

INLINE vf pair_part(const enum pair_form form, vf a, vf b, vf sum)
{
    if (form == PAIR_DOT)
        return v_fma(a, b, sum);
    vf c = form == PAIR_SUM ? v_add(a, b) : v_sub(a, b);
    return v_fma(c, c, sum);
}

INLINE void pair_sums(const enum pair_form form, const size_t queries, float *out, const float *a,
                      size_t ld_a, const uint32_t *a_rows, const float *b, size_t ld_b,
                      const uint32_t *b_rows, size_t keys, size_t dim)
{
    const float *left[2] = {a + a_rows[0] * ld_a, a + a_rows[queries - 1] * ld_a};
    for (size_t j = 0; j < keys; j += 4) {
        vf sum[2][4];
        const float *right[4];
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            /* Keys beyond the last are the last again: out has room for them, nobody reads them. */
            right[k] = b + b_rows[j + k < keys ? j + k : keys - 1] * ld_b;
            sum[0][k] = sum[1][k] = v_zero();
        }
        for (size_t c = 0; c < dim; c += VLEN)
#pragma GCC unroll 4
            for (size_t k = 0; k < 4; k++) {
                vf other = v_get(right[k] + c, dim - c);
#pragma GCC unroll 2
                for (size_t q = 0; q < queries; q++)
                    sum[q][k] = pair_part(form, v_get(left[q] + c, dim - c), other, sum[q][k]);
            }
#pragma GCC unroll 2
        for (size_t q = 0; q < queries; q++)
            v_sum4(out + q * PAIR_KEYS + j, sum[q][0], sum[q][1], sum[q][2], sum[q][3]);
    }
}

INLINE void pair_sums_all(const enum pair_form form, float *out, const float *a, size_t ld_a,
                          const uint32_t *a_rows, size_t queries, const float *b, size_t ld_b,
                          const uint32_t *b_rows, size_t keys, size_t dim)
{
    size_t q = 0;
    for (; q + 2 <= queries; q += 2)
        pair_sums(form, 2, out + q * PAIR_KEYS, a, ld_a, a_rows + q, b, ld_b, b_rows, keys, dim);
    if (q < queries)
        pair_sums(form, 1, out + q * PAIR_KEYS, a, ld_a, a_rows + q, b, ld_b, b_rows, keys, dim);
}

/* weight *= hash_bits / (p pi s), and the sign of the dot product, for one row of `keys` pairs. */
INLINE void pair_tangent(float *weight, float *sigma, const float *u2, const float *v2, size_t keys,
                         unsigned hash_bits)
{
    vf zero = v_zero(), one = v_set(1.0f), bits = v_set(2.0f * (float)hash_bits);
    for (size_t k = 0; k < keys; k += VLEN) {
        size_t left = keys - k < VLEN ? keys - k : VLEN;
        vf u = v_get(u2 + k, left), v = v_get(v2 + k, left);
        vm opposite = v_less(v, u);
        /* The smaller of the two over their sum: exact for lengths that are off one by rounding. */
        vf part = v_div(v_select(opposite, v, u), v_add(u, v));
        vf angle = v_angle(v_mul(part, v_set(4.0f)));
        vf p_pi = v_select(opposite, angle, v_sub(v_set(3.14159265f), angle));
        vf product = v_mul(p_pi, v_sqrt(v_mul(u, v)));
        vf steep = v_select(v_less(zero, product), v_div(bits, product), zero);
        v_put(weight + k, v_mul(v_get(weight + k, left), steep), left);
        v_put(sigma + k, v_select(opposite, v_sub(zero, one), one), left);
    }
}

/* Rows [first, first + rows) of dx += W other (or W (other - sigma own)), columns [c, c + VLEN * vectors), of
   which `left` of the last vector exist. The weight of row r and partner k is at r * step_row + k *
   step_other. */
INLINE void pair_spread_block(const bool tangent, const size_t rows, const size_t vectors, const size_t left,
                              const struct pair_side *side, size_t first, const struct pair_side *others,
                              const float *weight, const float *sigma, size_t step_row, size_t step_other,
                              size_t c)
{
    vf sum[PAIR_ROWS][BLOCK_VECTORS], other[BLOCK_VECTORS];
    float *dx[PAIR_ROWS];
    const float *own[PAIR_ROWS];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) {
        dx[r] = side->dx + side->rows[first + r] * side->ld + c;
        own[r] = side->x + side->rows[first + r] * side->ld + c;
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = v_get(dx[r] + v * VLEN, left);
    }
    for (size_t k = 0; k < others->count; k++) {
        const float *partner = others->x + others->rows[k] * others->ld + c;
        size_t at = first * step_row + k * step_other;
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++)
            other[v] = v_get(partner + v * VLEN, left);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            vf each = v_set(weight[at + r * step_row]);
            vf turn = tangent ? v_set(sigma[at + r * step_row]) : v_zero();
#pragma GCC unroll 4
            for (size_t v = 0; v < vectors; v++) {
                vf x = tangent ? v_fnma(turn, v_get(own[r] + v * VLEN, left), other[v]) : other[v];
                sum[r][v] = v_fma(each, x, sum[r][v]);
            }
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++)
            v_put(dx[r] + v * VLEN, sum[r][v], left);
}

INLINE void pair_spread_columns(const bool tangent, const size_t vectors, const size_t left,
                                const struct pair_side *side, const struct pair_side *others,
                                const float *weight, const float *sigma, size_t step_row, size_t step_other,
                                size_t c)
{
    size_t r = 0;
    for (; r + 4 <= side->count; r += 4)
        pair_spread_block(tangent, 4, vectors, left, side, r, others, weight, sigma, step_row, step_other, c);
    for (; r + 2 <= side->count; r += 2)
        pair_spread_block(tangent, 2, vectors, left, side, r, others, weight, sigma, step_row, step_other, c);
    for (; r < side->count; r++)
        pair_spread_block(tangent, 1, vectors, left, side, r, others, weight, sigma, step_row, step_other, c);
}

INLINE void pair_spread(const bool tangent, const struct pair_side *side, const struct pair_side *others,
                        const float *weight, const float *sigma, size_t step_row, size_t step_other,
                        size_t dim)
{
    size_t c = 0;
    for (; c + BLOCK_VECTORS * VLEN <= dim; c += BLOCK_VECTORS * VLEN)
        pair_spread_columns(tangent, BLOCK_VECTORS, VLEN, side, others, weight, sigma, step_row, step_other,
                            c);
    for (; c + VLEN <= dim; c += VLEN)
        pair_spread_columns(tangent, 1, VLEN, side, others, weight, sigma, step_row, step_other, c);
    if (c < dim)
        pair_spread_columns(tangent, 1, dim - c, side, others, weight, sigma, step_row, step_other, c);
}

INLINE void bucket_block(const bool tangent, const struct bucket_pairs *bucket,
                         const struct pair_side *queries, const struct pair_side *keys)
{
    float weight[PAIR_QUERIES * PAIR_KEYS], sigma[PAIR_QUERIES * PAIR_KEYS];
    pair_sums_all(PAIR_DOT, weight, bucket->dout, bucket->ld_dout, queries->rows, queries->count,
                  bucket->value, bucket->ld_value, keys->rows, keys->count, bucket->value_dim);
    for (size_t q = 0; q < queries->count; q++) {
        float *row = weight + q * PAIR_KEYS;
        vf bias = v_set(bucket->bias == NULL ? 0.0f : bucket->bias[queries->rows[q]]);
        vf scale = v_set(bucket->scale);
        for (size_t k = 0; k < keys->count; k += VLEN) {
            size_t left = keys->count - k;
            v_put(row + k, v_mul(v_add(v_get(row + k, left), bias), scale), left);
        }
    }
    if (tangent) {
        float u2[PAIR_QUERIES * PAIR_KEYS], v2[PAIR_QUERIES * PAIR_KEYS];
        pair_sums_all(PAIR_DIFFERENCE, u2, queries->x, queries->ld, queries->rows, queries->count, keys->x,
                      keys->ld, keys->rows, keys->count, bucket->dim);
        pair_sums_all(PAIR_SUM, v2, queries->x, queries->ld, queries->rows, queries->count, keys->x, keys->ld,
                      keys->rows, keys->count, bucket->dim);
        for (size_t q = 0; q < queries->count; q++) {
            size_t at = q * PAIR_KEYS;
            pair_tangent(weight + at, sigma + at, u2 + at, v2 + at, keys->count, bucket->hash_bits);
        }
    }
    pair_spread(tangent, queries, keys, weight, sigma, PAIR_KEYS, 1, bucket->dim);
    pair_spread(tangent, keys, queries, weight, sigma, 1, PAIR_KEYS, bucket->dim);
}

static void bucket_pairs(const struct bucket_pairs *bucket)
{
    for (size_t i = 0; i < bucket->num_queries; i += PAIR_QUERIES) {
        size_t some = bucket->num_queries - i < PAIR_QUERIES ? bucket->num_queries - i : PAIR_QUERIES;
        struct pair_side queries = {bucket->query, bucket->dquery, bucket->ld_query, some,
                                    bucket->queries + i};
        for (size_t j = 0; j < bucket->num_keys; j += PAIR_KEYS) {
            some = bucket->num_keys - j < PAIR_KEYS ? bucket->num_keys - j : PAIR_KEYS;
            struct pair_side keys = {bucket->key, bucket->dkey, bucket->ld_key, some, bucket->keys + j};
            if (bucket->tangent)
                bucket_block(true, bucket, &queries, &keys);
            else
                bucket_block(false, bucket, &queries, &keys);
        }
    }
}

#endif
