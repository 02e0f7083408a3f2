/* The product in tiles. Panels of B, DEPTH x COLS, stay in the first-level cache while blocks of ROWS rows of
   A pass. A transposed B is transposed panel by panel into a block on the stack. If the rows of B are a
   multiple of a page apart, they all fall into the same few sets of that cache, so the panel is copied there
   too: 1.25 times the rate at 192 x 1024 x 256 with AVX2 on Zen 4; a copy of other panels costs 5 %. A is
   read in place, transposed or not.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_tiles.h"

#include <string.h>

#include "base/memory.h"

enum {
    ROWS = 96, /* a multiple of the slot's six rows */
    COLS = 64,
    DEPTH = 128,
    PAGE = 1024,    /* floats */
    COPY_ROWS = 64, /* of A, at least, that pay for a copy */
};

/* Rows of B, ld_b floats apart, as rows of COLS floats. */
static void copy_panel(float *to, const float *b, size_t ld_b, size_t deep, size_t wide)
{
    for (size_t k = 0; k < deep; k++)
        memcpy(to + k * COLS, b + k * ld_b, wide * sizeof *to);
}

void product_tiles(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                   bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n,
                   size_t k, bool add)
{
    size_t a_row = transpose_a ? 1 : ld_a, a_col = transpose_a ? ld_a : 1;
    bool copied = ld_b % PAGE == 0 && m >= COPY_ROWS;
    float transposed[DEPTH * COLS];
    if (k == 0) {
        kernels->tiles.product(c, ld_c, a, a_row, a_col, b, ld_b, m, n, 0, add);
        return;
    }
    for (size_t depth = 0; depth < k; depth += DEPTH) {
        size_t deep = size_min(DEPTH, k - depth);
        for (size_t column = 0; column < n; column += COLS) {
            size_t wide = size_min(COLS, n - column), ld_panel = COLS;
            const float *panel = transposed;
            if (transpose_b) {
                kernels->tiles.transpose(transposed, COLS, b + column * ld_b + depth, ld_b, wide, deep);
            } else if (copied) {
                copy_panel(transposed, b + depth * ld_b + column, ld_b, deep, wide);
            } else {
                panel = b + depth * ld_b + column;
                ld_panel = ld_b;
            }
            for (size_t row = 0; row < m; row += ROWS)
                kernels->tiles.product(c + row * ld_c + column, ld_c, a + row * a_row + depth * a_col, a_row,
                                       a_col, panel, ld_panel, size_min(ROWS, m - row), wide, deep,
                                       add || depth > 0);
        }
    }
}
