/* Products of tiles in the precision of a problem: slot tiles.product, or in bf16, both operands rounded
   into own memory and multiplied by slot bf16.product, with sums in float32. Rounding costs a pass over both
   operands: about a quarter of the time of the product at tiles of 96 x 128 and depth 64.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TILE_PRODUCTS_H
#define PARTS_TILE_PRODUCTS_H

#include <math.h>

#include "base/memory.h"
#include "kernels/product_weights.h"

/* rows rounded up to a multiple of `tile`. */
static inline size_t whole_tiles(size_t rows, size_t tile)
{
    return size_product(size_sum(rows, tile - 1) / tile, tile);
}

/* The factor of scores: 1 / sqrt(dim). */
static inline float score_scale(size_t dim)
{
    return (float)(1 / sqrt((double)dim));
}

struct tile_products {
    bf16 *left, *right; /* NULL in float32 */
    float *transposed;
};

/* Takes the memory for products of at most this many rows, columns and depth. */
struct tile_products tile_products_take(struct arena *arena, enum precision precision, size_t rows,
                                        size_t cols, size_t depth);

/* c (rows, cols) = [add: c +] A B, as slot tiles.product; a_row or a_col is 1. */
void tile_multiply(const struct tile_products *products, const struct kernels *kernels, float *c, size_t ld_c,
                   const float *a, size_t a_row, size_t a_col, const float *b, size_t ld_b, size_t rows,
                   size_t cols, size_t depth, bool add);

/* result (rows, cols) *= factor (rows), the change of the running softmax; in most tiles no maximum is new,
   and all factors are 1. */
void tile_rescale(const struct kernels *kernels, float *result, size_t cols, const float *factor,
                  size_t rows);

#endif
