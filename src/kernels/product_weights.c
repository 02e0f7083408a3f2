/* Weights are stored in panels of PANEL columns, each with its whole depth in one run. float32 panels are cut
   into strips as wide as a block of the slot, so that a block reads B from consecutive addresses; bfloat16
   panels interleave two rows. A product cuts the depth into slabs, so that a tile of rows of A fits the
   second-level cache. The panels of a slab are read sequentially, and C is read and written once per slab
   rather than once per piece of a panel that fits the first level.
   Rates of AVX2 with rows of B 64 apart and in strips of 16, GF/s on Zen 3 (bench/products.c, rows x columns
   x depth): 16x1536x384 52 and 84, 48x1536x384 67 and 84, 192x1536x384 58 and 75, 192x384x1536 63 and 76,
   192x3072x768 70 and 81, 192x768x3072 66 and 81. Slabs of 256 and 384 gain nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_weights.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

enum {
    PANEL = WEIGHTS_PANEL,
    ROWS = 192,     /* of a slab, 576 KiB in either precision, */
    DEPTH_32 = 768, /* with this depth */
    DEPTH_16 = 1536,
    ROUNDED = 448,     /* depth of ROWS rows rounded on the stack: 168 KiB of the 256 that a caller has */
    TURNED_ROWS = 384, /* rows of A^T rounded at a time, for TURNED_DEPTH: 144 KiB */
    TURNED_DEPTH = 192,
    BLOCK = 64 /* rows transposed at a time */
};

const char *const precision_names[] = {"float32", "bf16", NULL};

/* Number of floats in a panel. */
static size_t panel_size(enum precision precision, size_t k)
{
    return precision == PRECISION_BF16 ? (k + 1) / 2 * PANEL : k * PANEL;
}

size_t weights_size(enum precision precision, size_t k, size_t n)
{
    return (n + PANEL - 1) / PANEL * panel_size(precision, k);
}

/* float32: strips of as many columns as a block of the slot has, each with its whole depth. */
static void pack_floats(const struct kernels *kernels, float *weights, const float *b, size_t ld_b,
                        bool transpose_b, size_t k, size_t n)
{
    size_t strip = kernels->tiles.columns;
    assert(PANEL % strip == 0);
    for (size_t column = 0; column < n; column += strip) {
        size_t wide = size_min(strip, n - column);
        float *to = weights + column * k;
        if (transpose_b)
            kernels->tiles.transpose(to, strip, b + column * ld_b, ld_b, wide, k);
        else
            for (size_t i = 0; i < k; i++)
                memcpy(to + i * strip, b + i * ld_b + column, wide * sizeof *to);
    }
}

/* bfloat16: panels of two interleaved rows; zeros fill the last one. */
static void pack_halves(const struct kernels *kernels, float *weights, const float *b, size_t ld_b,
                        bool transpose_b, size_t k, size_t n)
{
    float rows[BLOCK * PANEL]; /* (deep, PANEL) of op(B) */
    for (size_t column = 0; column < n; column += PANEL, weights += panel_size(PRECISION_BF16, k)) {
        size_t wide = size_min(PANEL, n - column);
        if (wide < PANEL)
            memset(rows, 0, sizeof rows);
        for (size_t depth = 0; depth < k; depth += BLOCK) {
            size_t deep = size_min(BLOCK, k - depth);
            if (transpose_b)
                kernels->tiles.transpose(rows, PANEL, b + column * ld_b + depth, ld_b, wide, deep);
            else
                for (size_t i = 0; i < deep; i++)
                    memcpy(rows + i * PANEL, b + (depth + i) * ld_b + column, wide * sizeof *rows);
            kernels->bf16.interleave((bf16 *)weights + depth * PANEL, 2 * PANEL, rows, PANEL, deep, PANEL);
        }
    }
}

void weights_pack(const struct kernels *kernels, enum precision precision, float *weights, const float *b,
                  size_t ld_b, bool transpose_b, size_t k, size_t n)
{
    if (precision == PRECISION_BF16)
        pack_halves(kernels, weights, b, ld_b, transpose_b, k, n);
    else
        pack_floats(kernels, weights, b, ld_b, transpose_b, k, n);
}

size_t weights_from(enum precision precision, size_t k, size_t column)
{
    assert(column % PANEL == 0);
    return column / PANEL * panel_size(precision, k);
}

const void *weights_left(const struct kernels *kernels, enum precision precision, bf16 *halves,
                         const float *rows, size_t m, size_t k)
{
    if (precision == PRECISION_FLOAT32)
        return rows;
    size_t ld = weights_left_width(k);
    kernels->bf16.round(halves, ld, rows, k, m, k);
    for (size_t i = 0; i < m && k % 2 == 1; i++)
        halves[i * ld + k] = 0;
    return halves;
}

/* The product of a slab with the `wide` columns of a panel. */
static void product_panel(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                          const void *a, size_t ld_a, const float *panel, size_t m, size_t wide, size_t k,
                          size_t first, size_t deep, bool add)
{
    if (precision == PRECISION_BF16) {
        kernels->bf16.product(c, ld_c, a, ld_a, (const bf16 *)panel + first * PANEL, 2 * PANEL, m, wide,
                              (deep + 1) / 2, add);
        return;
    }
    size_t strip = kernels->tiles.columns;
    for (size_t j = 0; j < wide; j += strip)
        kernels->tiles.product(c + j, ld_c, a, ld_a, 1, panel + j * k + first * strip, strip, m,
                               size_min(strip, wide - j), deep, add);
}

/* Depth of a slab of m rows of A: as many floats as ROWS rows of DEPTH_32. The strips of few rows so have
   their whole depth, and each is followed by the next one, which the slot fetches. */
static size_t slab_depth(size_t m)
{
    return m < ROWS ? ROWS * DEPTH_32 / size_max(m, 1) : DEPTH_32;
}

/* C = [add: C +] the product over the depth [first, first + deep) [+ bias]; a is that part of A. */
static void product_slab(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                         const void *a, size_t ld_a, const float *weights, size_t m, size_t n, size_t k,
                         size_t first, size_t deep, const float *bias, bool add)
{
    for (size_t column = 0; column < n; column += PANEL, weights += panel_size(precision, k)) {
        size_t wide = size_min(PANEL, n - column);
        product_panel(kernels, precision, c + column, ld_c, a, ld_a, weights, m, wide, k, first, deep, add);
        if (bias != NULL)
            kernels->layers.add_bias(c + column, ld_c, bias + column, m, wide);
    }
}

void product_left(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                  const void *left, const float *weights, size_t m, size_t n, size_t k, const float *bias)
{
    const bool half = precision == PRECISION_BF16;
    size_t first = 0, ld = half ? weights_left_width(k) : k;
    do {
        size_t deep = size_min(half ? DEPTH_16 : slab_depth(m), k - first);
        const void *a =
            half ? (const void *)((const bf16 *)left + first) : (const void *)((const float *)left + first);
        product_slab(kernels, precision, c, ld_c, a, ld, weights, m, n, k, first, deep,
                     first + deep == k ? bias : NULL, first > 0);
        first += deep;
    } while (first < k);
}

/* Rounds A during the product, one slab at a time. */
static void product_rounded(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                            const float *weights, size_t m, size_t n, size_t k, bool add)
{
    bf16 slab[ROWS * ROUNDED];
    size_t first = 0;
    do {
        size_t deep = size_min(ROUNDED, k - first), ld = weights_left_width(deep);
        for (size_t row = 0; row < m; row += ROWS) {
            size_t high = size_min(ROWS, m - row);
            kernels->bf16.round(slab, ld, a + row * ld_a + first, ld_a, high, deep);
            for (size_t i = 0; i < high && deep < ld; i++)
                slab[i * ld + deep] = 0;
            product_slab(kernels, PRECISION_BF16, c + row * ld_c, ld_c, slab, ld, weights, high, n, k, first,
                         deep, NULL, add || first > 0);
        }
        first += deep;
    } while (first < k);
}

void product_weights(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                     const float *a, size_t ld_a, const float *weights, size_t m, size_t n, size_t k,
                     bool add)
{
    if (precision == PRECISION_BF16) {
        product_rounded(kernels, c, ld_c, a, ld_a, weights, m, n, k, add);
        return;
    }
    size_t first = 0;
    do {
        size_t deep = size_min(slab_depth(m), k - first);
        product_slab(kernels, precision, c, ld_c, a + first, ld_a, weights, m, n, k, first, deep, NULL,
                     add || first > 0);
        first += deep;
    } while (first < k);
}

/* out (cols, rows) = in (rows, cols), transposed and rounded. */
static void transpose_round(const struct kernels *kernels, bf16 *out, size_t ld_out, const float *in,
                            size_t ld_in, size_t rows, size_t cols)
{
    float transposed[BLOCK * BLOCK];
    for (size_t i = 0; i < rows; i += BLOCK)
        for (size_t j = 0; j < cols; j += BLOCK) {
            size_t high = size_min(BLOCK, rows - i), wide = size_min(BLOCK, cols - j);
            kernels->tiles.transpose(transposed, BLOCK, in + i * ld_in + j, ld_in, high, wide);
            kernels->bf16.round(out + j * ld_out + i, ld_out, transposed, BLOCK, wide, high);
        }
}

void product_transposed_bf16(const struct kernels *kernels, float *c, size_t ld_c, const float *a,
                             size_t ld_a, const float *b, size_t ld_b, size_t m, size_t n, size_t k)
{
    bf16 left[TURNED_ROWS * TURNED_DEPTH], right[TURNED_DEPTH * PANEL];
    for (size_t depth = 0; depth < k; depth += TURNED_DEPTH) {
        size_t deep = size_min(TURNED_DEPTH, k - depth), pairs = (deep + 1) / 2;
        for (size_t row = 0; row < m; row += TURNED_ROWS) {
            size_t high = size_min(TURNED_ROWS, m - row);
            for (size_t i = 0; i < high && deep % 2 == 1; i++)
                left[i * 2 * pairs + deep] = 0;
            transpose_round(kernels, left, 2 * pairs, a + depth * ld_a + row, ld_a, deep, high);
            for (size_t column = 0; column < n; column += PANEL) {
                size_t wide = size_min(PANEL, n - column);
                kernels->bf16.interleave(right, 2 * PANEL, b + depth * ld_b + column, ld_b, deep, wide);
                kernels->bf16.product(c + row * ld_c + column, ld_c, left, 2 * pairs, right, 2 * PANEL, high,
                                      wide, pairs, true);
            }
        }
    }
}
