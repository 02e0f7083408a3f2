/* Slot bf16.product by tiles, and its loop of slot peak.bf16_loop. A block of 32 x 32 sums is four tiles; a
   step of 16 pairs loads two tiles of A and two of B from where they are and multiplies them four times. The
   last rows and columns are blocks of their own shape. The last pairs of the depth are copied beside zeros.
   An element adds its pairs in steps of 16 from the first on, whatever block it is in.

   Limited by the issue of instructions: 0.85 T multiply-adds per second, of 1.9 T in registers, because loads
   and stores of tiles are issued alone; 0.35 to 0.45 T if A comes from memory. vdpbf16ps reaches 0.06 T on
   the same Xeon, so the slot takes, of the time of avx512bf16: 0.08 at 64 x 64 x 64 (rows, columns, depth),
   0.10 at 96 x 128 x 64, 0.08 at 96 x 64 x 128, 0.07 at 192 x 64 x 1536; but 1.1 for one row at depth 768,
   and 2 (0.18 us) at depth 64, since a call takes 0.1 us to begin. Depths under LEAST_PAIRS take the body of
   simd_bf16.h, which is faster there.
   Rows in the outer loop take 0.8 of the time of columns in it if A comes from memory. No gain: slabs of 64
   or 256 pairs, or the whole depth.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_BF16_AMX_H
#define KERNELS_SIMD_BF16_AMX_H

#include <string.h>

#include "base/memory.h"
#include "kernels/simd_bf16.h"
#include "kernels/slots_peak.h"
#include "kernels/vec_tiles_amx.h"

enum {
    TILE_COLS = 16,  /* sums in a row of a tile, or pairs in a row of A */
    WHOLE_ROWS = 32, /* of a block */
    WHOLE_COLS = 32,
    GROUP_BLOCKS = 4, /* blocks of columns that pass one block of rows */
    SLAB_PAIRS = 128, /* depth at a time: 32 rows of A are 16 KiB, 64 columns of B 32 KiB */
    LEAST_PAIRS = 8
};

/* A product of blocks that have one shape. */
struct tile_product {
    size_t ld_c, ld_a, ld_b;
    size_t rows, cols; /* of a block */
    size_t steps;      /* of TILE_COLS pairs, read in place */
    size_t rest;       /* pairs after them */
    bool add;
    bf16 a_rest[WHOLE_ROWS][2 * TILE_COLS];
    bf16 b_rest[GROUP_BLOCKS][TILE_COLS][2 * WHOLE_COLS]; /* rows from `rest` on are 0 */
};

/* Tiles of a block: sums 0 to 3 by rows; rows of A 4, 5; columns of B 6, 7. A block of at most 16 rows or
   columns has no second tile there. */
static struct tile_shapes short_shapes(size_t rows, size_t cols)
{
    struct tile_shapes shapes = {.palette = 1};
    for (size_t i = 0; i < 2; i++) {
        size_t high = rows > i * TILE_ROWS ? size_min(rows - i * TILE_ROWS, TILE_ROWS) : 0;
        size_t wide = cols > i * TILE_COLS ? size_min(cols - i * TILE_COLS, TILE_COLS) : 0;
        shapes.rows[2 * i] = shapes.rows[2 * i + 1] = shapes.rows[4 + i] = (uint8_t)high;
        shapes.bytes[i] = shapes.bytes[2 + i] = shapes.bytes[6 + i] = (uint16_t)(wide * sizeof(float));
    }
    for (size_t tile = 4; tile < TILES; tile++)
        if (tile < 6)
            shapes.bytes[tile] = TILE_BYTES;
        else
            shapes.rows[tile] = TILE_ROWS;
    /* A tile has both or neither. */
    for (size_t tile = 0; tile < TILES; tile++)
        if (shapes.rows[tile] == 0 || shapes.bytes[tile] == 0)
            shapes.rows[tile] = 0, shapes.bytes[tile] = 0;
    return shapes;
}

/* A step of depth. low, right: there is a second tile of rows, of columns. */
INLINE void short_step(const bool low, const bool right, const bf16 *a, size_t ld_a, const bf16 *b,
                       size_t ld_b)
{
    TILE_LOAD(4, a, ld_a * sizeof *a);
    TILE_LOAD(6, b, ld_b * sizeof *b);
    if (right)
        TILE_LOAD(7, b + 2 * TILE_COLS, ld_b * sizeof *b);
    if (low)
        TILE_LOAD(5, a + TILE_ROWS * ld_a, ld_a * sizeof *a);
    TILE_DOT(bf16ps, 0, 4, 6);
    if (right)
        TILE_DOT(bf16ps, 1, 4, 7);
    if (low)
        TILE_DOT(bf16ps, 2, 5, 6);
    if (low && right)
        TILE_DOT(bf16ps, 3, 5, 7);
}

INLINE void short_start(const bool low, const bool right, const float *c, size_t ld_c, bool add)
{
    const float *below = c + TILE_ROWS * ld_c;
    TILE_ZERO(0);
    if (right)
        TILE_ZERO(1);
    if (low)
        TILE_ZERO(2);
    if (low && right)
        TILE_ZERO(3);
    if (!add)
        return;
    TILE_LOAD(0, c, ld_c * sizeof *c);
    if (right)
        TILE_LOAD(1, c + TILE_COLS, ld_c * sizeof *c);
    if (low)
        TILE_LOAD(2, below, ld_c * sizeof *c);
    if (low && right)
        TILE_LOAD(3, below + TILE_COLS, ld_c * sizeof *c);
}

/* One block; b_rest is that of its columns. */
INLINE void short_block(const bool low, const bool right, const struct tile_product *p, float *c,
                        const bf16 *a, const bf16 *b, const bf16 *b_rest)
{
    float *below = c + TILE_ROWS * p->ld_c;
    short_start(low, right, c, p->ld_c, p->add);
    for (size_t s = 0; s < p->steps; s++, a += 2 * TILE_COLS, b += TILE_COLS * p->ld_b)
        short_step(low, right, a, p->ld_a, b, p->ld_b);
    if (p->rest > 0)
        short_step(low, right, p->a_rest[0], 2 * TILE_COLS, b_rest, 2 * WHOLE_COLS);
    TILE_STORE(c, p->ld_c * sizeof *c, 0);
    if (right)
        TILE_STORE(c + TILE_COLS, p->ld_c * sizeof *c, 1);
    if (low)
        TILE_STORE(below, p->ld_c * sizeof *c, 2);
    if (low && right)
        TILE_STORE(below + TILE_COLS, p->ld_c * sizeof *c, 3);
}

/* Copies `pairs` pairs, at most `space`, of which a multiple of VLEN, followed by zeros. */
INLINE void short_rest(bf16 *to, const bf16 *from, size_t pairs, size_t space)
{
    for (size_t at = 0; at < space; at += VLEN) {
        size_t left = pairs > at ? size_min(pairs - at, VLEN) : 0;
        u_put_twos(to + 2 * at, left == 0 ? u_set(0) : u_get_shorts(from + 2 * at, 2 * left), VLEN);
    }
}

INLINE void short_blocks(const bool low, const bool right, struct tile_product *p, float *c, const bf16 *a,
                         const bf16 *b, size_t rows, size_t cols)
{
    for (size_t group = 0; group < cols; group += GROUP_BLOCKS * p->cols) {
        size_t blocks = size_min((cols - group) / p->cols, GROUP_BLOCKS);
        for (size_t g = 0; g < blocks; g++)
            for (size_t k = 0; k < p->rest; k++)
                short_rest(p->b_rest[g][k],
                           b + (p->steps * TILE_COLS + k) * p->ld_b + 2 * (group + g * p->cols), p->cols,
                           WHOLE_COLS);
        for (size_t i = 0; i < rows; i += p->rows) {
            const bf16 *left = a + i * p->ld_a;
            for (size_t r = 0; r < p->rows && p->rest > 0; r++)
                short_rest(p->a_rest[r], left + r * p->ld_a + p->steps * 2 * TILE_COLS, p->rest, TILE_COLS);
            for (size_t g = 0; g < blocks; g++) {
                size_t j = group + g * p->cols;
                short_block(low, right, p, c + i * p->ld_c + j, left, b + 2 * j, p->b_rest[g][0]);
            }
        }
    }
}

/* rows x cols, multiples of the shape high x wide of its blocks. */
static void short_part(struct tile_product *p, float *c, const bf16 *a, const bf16 *b, size_t rows,
                       size_t cols, size_t high, size_t wide)
{
    if (rows == 0 || cols == 0)
        return;
    const struct tile_shapes shapes = short_shapes(high, wide);
    p->rows = high;
    p->cols = wide;
    tiles_open(&shapes);
    if (high > TILE_ROWS && wide > TILE_COLS)
        short_blocks(true, true, p, c, a, b, rows, cols);
    else if (high > TILE_ROWS)
        short_blocks(true, false, p, c, a, b, rows, cols);
    else if (wide > TILE_COLS)
        short_blocks(false, true, p, c, a, b, rows, cols);
    else
        short_blocks(false, false, p, c, a, b, rows, cols);
}

/* The choice of the body depends on the depth alone, so that a row has its bits for any number of rows. */
static void bf16_product_amx(float *c, size_t ld_c, const bf16 *a, size_t ld_a, const bf16 *b, size_t ld_b,
                             size_t rows, size_t cols, size_t pairs, bool add)
{
    if (pairs < LEAST_PAIRS) {
        bf16_product(c, ld_c, a, ld_a, b, ld_b, rows, cols, pairs, add);
        return;
    }
    struct tile_product p;
    p.ld_c = ld_c, p.ld_a = ld_a, p.ld_b = ld_b;
    if (pairs % TILE_COLS != 0)
        memset(p.b_rest, 0, sizeof p.b_rest);
    size_t high = rows % WHOLE_ROWS, wide = cols % WHOLE_COLS, under = rows - high, beside = cols - wide;
    float *low = c + under * ld_c;
    for (size_t first = 0; first < pairs; first += SLAB_PAIRS) {
        size_t deep = size_min(pairs - first, SLAB_PAIRS);
        const bf16 *left = a + 2 * first, *low_left = left + under * ld_a;
        const bf16 *right = b + first * ld_b, *last_right = right + 2 * beside;
        p.steps = deep / TILE_COLS;
        p.rest = deep % TILE_COLS;
        p.add = add || first > 0;
        short_part(&p, c, left, right, under, beside, WHOLE_ROWS, WHOLE_COLS);
        short_part(&p, c + beside, left, last_right, under, wide, WHOLE_ROWS, wide);
        short_part(&p, low, low_left, right, high, beside, high, WHOLE_COLS);
        short_part(&p, low + beside, low_left, last_right, high, wide, high, wide);
    }
    tiles_close();
}

/* Three tiles of sums; each product adds 1/4 to a sum 32 times. */
static float peak_bf16_loop_amx(size_t rounds)
{
    enum { OPERATIONS = 4 * TILE_ROWS * TILE_COLS * TILE_COLS, SUMS = 3, NUMBERS = TILE_ROWS * TILE_COLS };
    bf16 halves[2 * NUMBERS];
    float sums[SUMS][NUMBERS];
    vf total = v_zero();
    for (size_t i = 0; i < 2 * NUMBERS; i++)
        halves[i] = 0x3f00;
    tiles_open(&tiles_whole); /* clears the sums */
    TILE_LOAD(3, halves, TILE_BYTES);
    TILE_LOAD(4, halves, TILE_BYTES);
    for (size_t r = 0; r < rounds * (FUSED_LOOP_OPERATIONS / (SUMS * OPERATIONS)); r++) {
        TILE_DOT(bf16ps, 0, 3, 4);
        TILE_DOT(bf16ps, 1, 3, 4);
        TILE_DOT(bf16ps, 2, 3, 4);
    }
    TILE_STORE(sums[0], TILE_BYTES, 0);
    TILE_STORE(sums[1], TILE_BYTES, 1);
    TILE_STORE(sums[2], TILE_BYTES, 2);
    tiles_close();
    for (size_t s = 0; s < SUMS; s++)
        for (size_t i = 0; i < NUMBERS; i += VLEN)
            total = v_add(total, v_load(sums[s] + i));
    return v_sum(total);
}

#endif
