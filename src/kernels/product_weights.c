/* Weights lie in panels of PANEL columns, each with its whole depth in one stretch, bfloat16 ones two rows
   side by side; the columns that fill the last panel are 0. A product takes its left operand in slabs, which
   it copies (and rounds), and each slab meets all panels while it stays in the second-level cache.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_weights.h"

#include <string.h>

enum {
    PANEL = 64,     /* columns */
    PIECE_32 = 128, /* depth of a piece of a panel: 32 KiB in either precision */
    PIECE_16 = 256,
    ROWS = 192,     /* of a slab of A, a copy of 300 KiB */
    DEPTH_32 = 384, /* of the slab */
    DEPTH_16 = 768,
    LD_32 = DEPTH_32 + 16, /* an odd number of cache lines, so that rows do not crowd into a few sets */
    LD_16 = DEPTH_16 + 32,
    TURNED_ROWS = 384, /* of A^T that are rounded at a time, for TURNED_DEPTH: 144 KiB */
    TURNED_DEPTH = 192,
    BLOCK = 64 /* is turned at a time */
};

const char *const precision_names[] = {"float32", "bf16", NULL};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Floats of one panel. */
static size_t panel_size(enum precision precision, size_t k)
{
    return precision == PRECISION_BF16 ? (k + 1) / 2 * PANEL : k * PANEL;
}

size_t weights_size(enum precision precision, size_t k, size_t n)
{
    return (n + PANEL - 1) / PANEL * panel_size(precision, k);
}

/* `deep` rows of a panel from row `depth` on; deep is even unless they are the last. */
static void lay_slab(const struct kernels *kernels, enum precision precision, float *panel,
                     const float rows[BLOCK * PANEL], size_t depth, size_t deep)
{
    if (precision == PRECISION_BF16)
        kernels->bf16_interleave((bf16 *)panel + depth * PANEL, 2 * PANEL, rows, PANEL, deep, PANEL);
    else
        memcpy(panel + depth * PANEL, rows, deep * PANEL * sizeof *rows);
}

void weights_lay(const struct kernels *kernels, enum precision precision, float *weights, const float *b,
                 size_t ld_b, bool transpose_b, size_t k, size_t n)
{
    float rows[BLOCK * PANEL]; /* (deep, PANEL) of op(B) */
    for (size_t column = 0; column < n; column += PANEL, weights += panel_size(precision, k)) {
        size_t wide = smaller(PANEL, n - column);
        if (wide < PANEL)
            memset(rows, 0, sizeof rows);
        for (size_t depth = 0; depth < k; depth += BLOCK) {
            size_t deep = smaller(BLOCK, k - depth);
            if (transpose_b)
                kernels->tile_transpose(rows, PANEL, b + column * ld_b + depth, ld_b, wide, deep);
            else
                for (size_t i = 0; i < deep; i++)
                    memcpy(rows + i * PANEL, b + (depth + i) * ld_b + column, wide * sizeof *rows);
            lay_slab(kernels, precision, weights, rows, depth, deep);
        }
    }
}

/* The rows of C that belong to a slab of A. Its panels pass one after another, each in pieces that stay in
   the first-level cache while all rows of the slab go by; a block of C stays in the second. */
static void product_slab(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                         const void *slab, const float *weights, size_t m, size_t n, size_t k, size_t first,
                         size_t deep, bool add)
{
    const bool half = precision == PRECISION_BF16;
    size_t piece = half ? PIECE_16 : PIECE_32;
    for (size_t column = 0; column < n; column += PANEL) {
        const float *panel = weights + column / PANEL * panel_size(precision, k);
        size_t wide = smaller(PANEL, n - column);
        for (size_t at = 0; at < deep; at += piece) {
            size_t depth = smaller(piece, deep - at);
            if (half)
                kernels->bf16_product(c + column, ld_c, (const bf16 *)slab + at, LD_16,
                                      (const bf16 *)panel + (first + at) * PANEL, 2 * PANEL, m, wide,
                                      (depth + 1) / 2, add || at > 0);
            else
                kernels->tile_product(c + column, ld_c, (const float *)slab + at, LD_32, 1,
                                      panel + (first + at) * PANEL, PANEL, m, wide, depth, add || at > 0);
        }
    }
}

void product_weights(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                     const float *a, size_t ld_a, const float *weights, size_t m, size_t n, size_t k,
                     bool add)
{
    union {
        float singles[ROWS * LD_32];
        bf16 halves[ROWS * LD_16];
    } slab;
    size_t depth = precision == PRECISION_BF16 ? DEPTH_16 : DEPTH_32;
    if (k == 0)
        kernels->tile_product(c, ld_c, a, ld_a, 1, weights, PANEL, m, n, 0, add);
    for (size_t row = 0; row < m; row += ROWS)
        for (size_t first = 0; first < k; first += depth) {
            size_t high = smaller(ROWS, m - row), deep = smaller(depth, k - first);
            const float *from = a + row * ld_a + first;
            if (precision == PRECISION_BF16)
                kernels->bf16_round(slab.halves, LD_16, from, ld_a, high, deep);
            for (size_t i = 0; i < high; i++)
                if (precision != PRECISION_BF16)
                    memcpy(slab.singles + i * LD_32, from + i * ld_a, deep * sizeof *from);
                else if (deep % 2 == 1)
                    slab.halves[i * LD_16 + deep] = 0;
            product_slab(kernels, precision, c + row * ld_c, ld_c, &slab, weights, high, n, k, first, deep,
                         add || first > 0);
        }
}

/* out (cols, rows) = in (rows, cols), turned and rounded. */
static void turn(const struct kernels *kernels, bf16 *out, size_t ld_out, const float *in, size_t ld_in,
                 size_t rows, size_t cols)
{
    float turned[BLOCK * BLOCK];
    for (size_t i = 0; i < rows; i += BLOCK)
        for (size_t j = 0; j < cols; j += BLOCK) {
            size_t high = smaller(BLOCK, rows - i), wide = smaller(BLOCK, cols - j);
            kernels->tile_transpose(turned, BLOCK, in + i * ld_in + j, ld_in, high, wide);
            kernels->bf16_round(out + j * ld_out + i, ld_out, turned, BLOCK, wide, high);
        }
}

void product_turned_bf16(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                         const float *b, size_t ld_b, size_t m, size_t n, size_t k)
{
    bf16 left[TURNED_ROWS * TURNED_DEPTH], right[TURNED_DEPTH * PANEL];
    for (size_t depth = 0; depth < k; depth += TURNED_DEPTH) {
        size_t deep = smaller(TURNED_DEPTH, k - depth), pairs = (deep + 1) / 2;
        for (size_t row = 0; row < m; row += TURNED_ROWS) {
            size_t high = smaller(TURNED_ROWS, m - row);
            for (size_t i = 0; i < high && deep % 2 == 1; i++)
                left[i * 2 * pairs + deep] = 0;
            turn(kernels, left, 2 * pairs, a + depth * ld_a + row, ld_a, deep, high);
            for (size_t column = 0; column < n; column += PANEL) {
                size_t wide = smaller(PANEL, n - column);
                kernels->bf16_interleave(right, 2 * PANEL, b + depth * ld_b + column, ld_b, deep, wide);
                kernels->bf16_product(c + row * ld_c + column, ld_c, left, 2 * pairs, right, 2 * PANEL, high,
                                      wide, pairs, true);
            }
        }
    }
}
