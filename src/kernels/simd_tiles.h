/* Dense work on tiles. The product keeps BLOCK_ROWS x BLOCK_VECTORS sums in registers over the whole depth:
   each step has BLOCK_VECTORS loads of B and BLOCK_ROWS broadcasts of A for BLOCK_ROWS * BLOCK_VECTORS fused
   multiply-adds, so loads take less than half the time of the arithmetic. Every sum is one chain over k from
   C (or 0) on, whatever block its row is in, so a row has the same bits at any position. Measured on Zen 5 as
   a share of a loop of multiply-adds in registers: 97 to 100 % for 64 x 64 x 64 and the like, A transposed or
   not, on both instruction sets; 90 x 90 x 64, whose last vector is masked, 90 %.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_TILES_H
#define KERNELS_SIMD_TILES_H

#include "kernels/simd_math.h"
#include "kernels/slots_tiles.h"

/* Memory that blocks fetch into the second-level cache while they compute. */
struct ahead {
    bool any; /* a constant */
    const char *place;
    size_t step; /* bytes per step of the depth */
};

/* A block of `rows` x `vectors` of C; `left` columns exist in the last vector (VLEN: all). */
INLINE void product_block(const size_t rows, const size_t vectors, const size_t left, float *c, size_t ld_c,
                          const float *a, size_t a_row, size_t a_col, const float *b, size_t ld_b,
                          size_t depth, bool add, struct ahead *ahead)
{
    vf sum[BLOCK_ROWS][BLOCK_VECTORS], right[BLOCK_VECTORS];
    UNROLLED
    for (size_t i = 0; i < rows; i++) {
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[i][v] = add ? v_get(c + i * ld_c + v * VLEN, v + 1 < vectors ? VLEN : left) : v_zero();
    }
    for (size_t k = 0; k < depth; k++, a += a_col, b += ld_b) {
        if (ahead->any) {
            __builtin_prefetch(ahead->place, 0, 2);
            ahead->place += ahead->step;
        }
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            right[v] = v_get(b + v * VLEN, v + 1 < vectors ? VLEN : left);
        UNROLLED
        for (size_t i = 0; i < rows; i++) {
            vf each = v_set(a[i * a_row]);
            UNROLLED
            for (size_t v = 0; v < vectors; v++)
                sum[i][v] = v_fma(each, right[v], sum[i][v]);
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
INLINE void product_rows(const size_t vectors, const size_t left, float *c, size_t ld_c, const float *a,
                         size_t a_row, size_t a_col, const float *b, size_t ld_b, size_t rows, size_t depth,
                         bool add, struct ahead ahead)
{
    size_t i = 0;
    for (; i + BLOCK_ROWS <= rows; i += BLOCK_ROWS)
        product_block(BLOCK_ROWS, vectors, left, c + i * ld_c, ld_c, a + i * a_row, a_row, a_col, b, ld_b,
                      depth, add, &ahead);
    for (; i + 4 <= rows; i += 4)
        product_block(4, vectors, left, c + i * ld_c, ld_c, a + i * a_row, a_row, a_col, b, ld_b, depth, add,
                      &ahead);
    for (; i + 2 <= rows; i += 2)
        product_block(2, vectors, left, c + i * ld_c, ld_c, a + i * a_row, a_row, a_col, b, ld_b, depth, add,
                      &ahead);
    for (; i < rows; i++)
        product_block(1, vectors, left, c + i * ld_c, ld_c, a + i * a_row, a_row, a_col, b, ld_b, depth, add,
                      &ahead);
}

INLINE void product_columns(const size_t vectors, const size_t left, float *c, size_t ld_c, const float *a,
                            size_t a_row, size_t a_col, const float *b, size_t ld_b, size_t rows,
                            size_t depth, bool add)
{
    product_rows(vectors, left, c, ld_c, a, a_row, a_col, b, ld_b, rows, depth, add,
                 (struct ahead){.any = false});
}

/* A few rows and a strip as wide as a block, one of many in a run of memory. All blocks together take longer
   than the strip from memory, but the first of them would wait for it: so they fetch the next strip, a share
   each. GF/s from memory with and without (bench/products.c, AVX2 on Zen 3, rows x columns x depth):
   16x1536x384 62 and 47, 16x384x1536 62 and 50, 32x1536x384 66 and 55, 48x1536x384 75 and 67, 64x384x384 85
   and 70. Not inlined, so that addresses stay in registers. */
NOT_INLINED void product_strip(float *c, size_t ld_c, const float *a, size_t a_row, const float *b,
                               size_t rows, size_t depth, bool add)
{
    const size_t columns = BLOCK_VECTORS * VLEN, blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const struct ahead next = {true, (const char *)(b + depth * columns), columns * sizeof *b / blocks};
    product_rows(BLOCK_VECTORS, VLEN, c, ld_c, a, a_row, 1, b, columns, rows, depth, add, next);
}

/* The last columns, fewer than a block has. */
static void product_last_columns(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col,
                                 const float *b, size_t ld_b, size_t rows, size_t cols, size_t depth,
                                 bool add)
{
    size_t vectors = (cols + VLEN - 1) / VLEN, left = cols - (vectors - 1) * VLEN;
    if (BLOCK_VECTORS > 3 && vectors == 4)
        product_columns(4, left, c, ld_c, a, a_row, a_col, b, ld_b, rows, depth, add);
    else if (BLOCK_VECTORS > 2 && vectors == 3)
        product_columns(3, left, c, ld_c, a, a_row, a_col, b, ld_b, rows, depth, add);
    else if (vectors == 2)
        product_columns(2, left, c, ld_c, a, a_row, a_col, b, ld_b, rows, depth, add);
    else
        product_columns(1, left, c, ld_c, a, a_row, a_col, b, ld_b, rows, depth, add);
}

static void tiles_product(float *c, size_t ld_c, const float *a, size_t a_row, size_t a_col, const float *b,
                          size_t ld_b, size_t rows, size_t cols, size_t depth, bool add)
{
    size_t j = 0;
    if (rows > 0 && rows <= AHEAD_ROWS && cols == BLOCK_VECTORS * VLEN && ld_b == cols && a_col == 1) {
        product_strip(c, ld_c, a, a_row, b, rows, depth, add);
        return;
    }
    for (; j + BLOCK_VECTORS * VLEN <= cols; j += BLOCK_VECTORS * VLEN)
        product_columns(BLOCK_VECTORS, VLEN, c + j, ld_c, a, a_row, a_col, b + j, ld_b, rows, depth, add);
    if (j < cols)
        product_last_columns(c + j, ld_c, a, a_row, a_col, b + j, ld_b, rows, cols - j, depth, add);
}

static void tiles_transpose(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows,
                            size_t cols)
{
    vf block[VLEN];
    for (size_t i = 0; i < rows; i += VLEN)
        for (size_t j = 0; j < cols; j += VLEN) {
            size_t high = rows - i < VLEN ? rows - i : VLEN, wide = cols - j < VLEN ? cols - j : VLEN;
            if (high == VLEN && wide == VLEN) {
                UNROLLED
                for (size_t r = 0; r < VLEN; r++)
                    block[r] = v_load(in + (i + r) * ld_in + j);
                v_transpose(block);
                UNROLLED
                for (size_t r = 0; r < VLEN; r++)
                    v_store(out + (j + r) * ld_out + i, block[r]);
                continue;
            }
            for (size_t r = 0; r < high; r++)
                for (size_t s = 0; s < wide; s++)
                    out[(j + s) * ld_out + i + r] = in[(i + r) * ld_in + j + s];
        }
}

#define SIMD_TILES                                                                                           \
    .tiles.columns = BLOCK_VECTORS * VLEN, .tiles.product = tiles_product, .tiles.transpose = tiles_transpose

#endif
