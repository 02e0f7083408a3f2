/* The product in tiles. Panels of B, DEPTH x COLS, stay in the first-level cache while blocks of ROWS rows of
   A pass. A transposed B is transposed panel by panel into a block on the stack. A is read in place,
   transposed or not.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_tiles.h"

#include "base/memory.h"

enum {
    ROWS = 96, /* a multiple of the slot's six rows */
    COLS = 64,
    DEPTH = 128,
};

void product_tiles(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                   bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n,
                   size_t k, bool add)
{
    size_t a_row = transpose_a ? 1 : ld_a, a_col = transpose_a ? ld_a : 1;
    float turned[DEPTH * COLS];
    if (k == 0) {
        kernels->tiles.product(c, ld_c, a, a_row, a_col, b, ld_b, m, n, 0, add);
        return;
    }
    for (size_t depth = 0; depth < k; depth += DEPTH) {
        size_t deep = size_min(DEPTH, k - depth);
        for (size_t column = 0; column < n; column += COLS) {
            size_t wide = size_min(COLS, n - column), ld_panel = COLS;
            const float *panel = turned;
            if (transpose_b) {
                kernels->tiles.transpose(turned, COLS, b + column * ld_b + depth, ld_b, wide, deep);
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
