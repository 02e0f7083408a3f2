/* bfloat16: rounding and widening rows, interleaving two rows, and the product of such pairs. The product is
   that of simd_tiles.h with pairs in place of numbers: DOT2_ROWS x BLOCK_VECTORS sums stay in registers over
   the depth. Every sum is one chain over the pairs from C (or 0) on, whatever block its row is in, so a row
   has the same bits at any position. Limited by the multiply-adds: a step has DOT2_ROWS broadcasts and
   BLOCK_VECTORS loads for DOT2_ROWS * BLOCK_VECTORS of them. Include one of vec_dot2_*.h first.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_BF16_H
#define KERNELS_SIMD_BF16_H

#include <string.h>

#include "kernels/simd_math.h"
#include "kernels/slots_bf16.h"

/* Broadcasts a pair to every lane. */
INLINE vu u_set_two(const bf16 *a)
{
    uint32_t pair;
    memcpy(&pair, a, sizeof pair);
    return u_set(pair);
}

/* A block of `rows` x `vectors` of C; `left` columns exist in the last vector (VLEN: all). */
INLINE void bf16_block(const size_t rows, const size_t vectors, const size_t left, float *c, size_t ld_c,
                       const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b, size_t pairs, bool add)
{
    vf sum[DOT2_ROWS][BLOCK_VECTORS];
    vu right[BLOCK_VECTORS];
    UNROLLED
    for (size_t i = 0; i < rows; i++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[i][v] = add ? v_get(c + i * ld_c + v * VLEN, v + 1 < vectors ? VLEN : left) : v_zero();
    }
    for (size_t k = 0; k < pairs; k++, a += 2, b += ld_b) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            right[v] = u_get_shorts(b + 2 * v * VLEN, 2 * (v + 1 < vectors ? VLEN : left));
        UNROLLED
        for (size_t i = 0; i < rows; i++) {
            vu each = u_set_two(a + i * ld_a);
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                sum[i][v] = v_dot2(each, right[v], sum[i][v]);
        }
    }
    UNROLLED
    for (size_t i = 0; i < rows; i++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(c + i * ld_c + v * VLEN, sum[i][v], v + 1 < vectors ? VLEN : left);
    }
}

/* All rows of `vectors` vectors of columns. */
INLINE void bf16_columns(const size_t vectors, const size_t left, float *c, size_t ld_c, const bf16 *a,
                         size_t ld_a, const bf16 *b, size_t ld_b, size_t rows, size_t pairs, bool add)
{
    size_t i = 0;
    for (; i + DOT2_ROWS <= rows; i += DOT2_ROWS)
        bf16_block(DOT2_ROWS, vectors, left, c + i * ld_c, ld_c, a + i * ld_a, ld_a, b, ld_b, pairs, add);
    for (; i + 2 <= rows; i += 2)
        bf16_block(2, vectors, left, c + i * ld_c, ld_c, a + i * ld_a, ld_a, b, ld_b, pairs, add);
    for (; i < rows; i++)
        bf16_block(1, vectors, left, c + i * ld_c, ld_c, a + i * ld_a, ld_a, b, ld_b, pairs, add);
}

/* The last columns, fewer than a block has. */
static void bf16_last_columns(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                              size_t rows, size_t cols, size_t pairs, bool add)
{
    size_t vectors = (cols + VLEN - 1) / VLEN, left = cols - (vectors - 1) * VLEN;
    if (BLOCK_VECTORS > 3 && vectors == 4)
        bf16_columns(4, left, c, ld_c, a, ld_a, b, ld_b, rows, pairs, add);
    else if (BLOCK_VECTORS > 2 && vectors == 3)
        bf16_columns(3, left, c, ld_c, a, ld_a, b, ld_b, rows, pairs, add);
    else if (vectors == 2)
        bf16_columns(2, left, c, ld_c, a, ld_a, b, ld_b, rows, pairs, add);
    else
        bf16_columns(1, left, c, ld_c, a, ld_a, b, ld_b, rows, pairs, add);
}

static void bf16_product(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                         size_t rows, size_t cols, size_t pairs, bool add)
{
    size_t j = 0;
    for (; j + BLOCK_VECTORS * VLEN <= cols; j += BLOCK_VECTORS * VLEN)
        bf16_columns(BLOCK_VECTORS, VLEN, c + j, ld_c, a, ld_a, b + 2 * j, ld_b, rows, pairs, add);
    if (j < cols)
        bf16_last_columns(c + j, ld_c, a, ld_a, b + 2 * j, ld_b, rows, cols - j, pairs, add);
}

/* The bits of a, rounded to the upper 16 of each lane, ties to even. A NaN keeps its sign and gets the quiet
   bit; otherwise its upper bits might be those of infinity. */
INLINE vu round_bits(vf a)
{
    vu bits = u_from(a), odd = u_and(u_right(bits, 16), u_set(1));
    vu rounded = u_add(bits, u_add(odd, u_set(0x7fff)));
    return u_select_nan(a, u_or(bits, u_set(0x400000)), rounded);
}

INLINE void round_part(bf16 *out, const float *in, size_t n)
{
    u_put_shorts(out, u_right(round_bits(v_get(in, n)), 16), n);
}

static void bf16_round(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        size_t c = 0;
        for (; c + VLEN <= cols; c += VLEN)
            round_part(out + i * ld_out + c, in + i * ld_in + c, VLEN);
        if (c < cols)
            round_part(out + i * ld_out + c, in + i * ld_in + c, cols - c);
    }
}

INLINE void widen_part(float *out, const bf16 *in, size_t n)
{
    v_put(out, v_from(u_left(u_widen_shorts(in, n), 16)), n);
}

/* Whole vectors have a loop of their own: with a mask for each vector it takes three times as many
   instructions. */
static void bf16_widen(float *out, size_t ld_out, const bf16 *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        size_t c = 0;
        for (; c + VLEN <= cols; c += VLEN)
            widen_part(out + i * ld_out + c, in + i * ld_in + c, VLEN);
        if (c < cols)
            widen_part(out + i * ld_out + c, in + i * ld_in + c, cols - c);
    }
}

static void bf16_interleave(bf16 *out, size_t ld_out, const float *in, size_t ld_in, size_t rows, size_t cols)
{
    for (size_t k = 0; k < rows; k += 2, out += ld_out)
        for (size_t c = 0; c < cols; c += VLEN) {
            const float *low = in + k * ld_in + c;
            size_t left = cols - c < VLEN ? cols - c : VLEN;
            vu even = u_right(round_bits(v_get(low, left)), 16), odd = u_set(0);
            if (k + 1 < rows)
                odd = u_and(round_bits(v_get(low + ld_in, left)), u_set(0xffff0000));
            u_put_twos(out + 2 * c, u_or(even, odd), left);
        }
}

#define SIMD_BF16                                                                                            \
    .bf16.how = DOT2_HOW, .bf16.round = bf16_round, .bf16.widen = bf16_widen,                                \
    .bf16.interleave = bf16_interleave

#endif
