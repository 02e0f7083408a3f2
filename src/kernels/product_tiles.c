/* The product in tiles of ROWS x COLS, over DEPTH at a time. While a block of the slot passes down ROWS rows
   of A, it reads one strip of B, DEPTH rows of tiles.columns, from the first-level cache. Rows a multiple of
   STRIDE apart fall into few sets of that cache and displace one another, so such a B is copied, each strip
   in one run of memory. So is a transposed B, and of a transposed A the tile. Sums keep their order, so
   copies change no bit. Cost: a float of B copied for m multiply-adds, at least COPY_ROWS unless B is
   transposed, of A for COLS. Rates with these copies as multiples of those without, Zen 3 with AVX2 (rows x
   columns x depth): 192x1536x384 1.27, 192x768x3072 1.04, 192x512x512 1.39, 192x384x384 1.05; A
   transposed 384x384x192 1.11, 768x768x192 1.34. Blocks as wide as a tile (AVX-512) measured 97 to
   100 % of a loop in registers in place, so they copy only what is a multiple of a page apart.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_tiles.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "base/memory.h"

enum {
    ROWS = 96, /* a multiple of the slot's six rows */
    COLS = 128,
    DEPTH = 128,
    STRIDE = 128, /* floats, as is PAGE */
    PAGE = 1024,
    COPY_ROWS = ROWS, /* of A, at least, that pay for a copy of B */
};

/* Rows of B, ld_b floats apart, as strips of `columns`. */
static void copy_strips(float *strips, size_t columns, const float *b, size_t ld_b, size_t deep, size_t wide)
{
    for (size_t k = 0; k < deep; k++)
        for (size_t j = 0; j < wide; j += columns)
            memcpy(strips + j * deep + k * columns, b + k * ld_b + j,
                   size_min(columns, wide - j) * sizeof *strips);
}

static void transpose_strips(const struct kernels *kernels, float *strips, const float *b, size_t ld_b,
                             size_t deep, size_t wide)
{
    size_t columns = kernels->tiles.columns;
    for (size_t j = 0; j < wide; j += columns)
        kernels->tiles.transpose(strips + j * deep, columns, b + j * ld_b, ld_b, size_min(columns, wide - j),
                                 deep);
}

static void copy_rows(float *to, const float *a, size_t ld_a, size_t deep, size_t rows)
{
    for (size_t k = 0; k < deep; k++)
        memcpy(to + k * ROWS, a + k * ld_a, rows * sizeof *to);
}

void product_tiles(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                   bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n,
                   size_t k, bool add)
{
    size_t a_row = transpose_a ? 1 : ld_a, a_col = transpose_a ? ld_a : 1, columns = kernels->tiles.columns;
    bool narrow = columns < KERNELS_TILE;
    bool strips = transpose_b || (m >= COPY_ROWS && ld_b % (narrow ? STRIDE : PAGE) == 0);
    alignas(64) float right[DEPTH * COLS], left[DEPTH * ROWS];
    assert(COLS % columns == 0);
    if (k == 0) {
        kernels->tiles.product(c, ld_c, a, a_row, a_col, b, ld_b, m, n, 0, add);
        return;
    }
    for (size_t depth = 0; depth < k; depth += DEPTH) {
        size_t deep = size_min(DEPTH, k - depth);
        for (size_t column = 0; column < n; column += COLS) {
            size_t wide = size_min(COLS, n - column), strip = strips ? columns : wide;
            bool copied = narrow && transpose_a && wide == COLS;
            const float *panel = strips ? right : b + depth * ld_b + column;
            if (transpose_b)
                transpose_strips(kernels, right, b + column * ld_b + depth, ld_b, deep, wide);
            else if (strips)
                copy_strips(right, columns, b + depth * ld_b + column, ld_b, deep, wide);
            for (size_t row = 0; row < m; row += ROWS) {
                size_t high = size_min(ROWS, m - row);
                const float *tile = copied ? left : a + row * a_row + depth * a_col;
                if (copied)
                    copy_rows(left, a + depth * ld_a + row, ld_a, deep, high);
                for (size_t j = 0; j < wide; j += strip)
                    kernels->tiles.product(c + row * ld_c + column + j, ld_c, tile, a_row,
                                           copied ? ROWS : a_col, panel + j * deep, strips ? columns : ld_b,
                                           high, size_min(strip, wide - j), deep, add || depth > 0);
            }
        }
    }
}
