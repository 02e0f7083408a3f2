/* Rounds, transposes A if it is stored transposed, and calls one slot.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/tile_products.h"

struct tile_products tile_products_take(struct arena *arena, enum precision precision, size_t rows,
                                        size_t cols, size_t depth)
{
    struct tile_products products = {NULL, NULL, NULL};
    if (precision != PRECISION_BF16)
        return products;
    size_t even = size_sum(depth, depth % 2);
    products.left = arena_take(arena, size_product(rows, even), sizeof(bf16));
    products.right = arena_take(arena, size_product(even, cols), sizeof(bf16));
    products.transposed = arena_take(arena, size_product(rows, depth), sizeof(float));
    return products;
}

void tile_multiply(const struct tile_products *products, const struct kernels *kernels, float *c, size_t ld_c,
                   const float *a, size_t a_row, size_t a_col, const float *b, size_t ld_b, size_t rows,
                   size_t cols, size_t depth, bool add)
{
    if (products->left == NULL) {
        kernels->tiles.product(c, ld_c, a, a_row, a_col, b, ld_b, rows, cols, depth, add);
        return;
    }
    size_t even = depth + depth % 2;
    if (a_col != 1) {
        kernels->tiles.transpose(products->transposed, depth, a, a_col, depth, rows);
        a = products->transposed;
        a_row = depth;
    }
    kernels->bf16.round(products->left, even, a, a_row, rows, depth);
    for (size_t i = 0; i < rows && even > depth; i++)
        products->left[i * even + depth] = 0;
    kernels->bf16.interleave(products->right, 2 * cols, b, ld_b, depth, cols);
    kernels->bf16.product(c, ld_c, products->left, even, products->right, 2 * cols, rows, cols, even / 2,
                          add);
}

void tile_rescale(const struct kernels *kernels, float *result, size_t cols, const float *factor, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (factor[i] != 1) {
            kernels->rows.scale(result, cols, factor, rows, cols);
            return;
        }
}
