/* Tiles in both precisions against double precision of the rounded operands, in both orders; in float32
   the slot's own bits. Bugs planted and caught: the odd last column of A left unchanged; a transposed A
   read as if it were not; add ignored in bf16.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/tile_products.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 70 };

static double operand(const struct kernels *kernels, enum precision precision, float a)
{
    bf16 half;
    if (precision == PRECISION_BF16) {
        kernels->bf16.round(&half, 1, &a, 1, 1, 1);
        kernels->bf16.widen(&a, 1, &half, 1, 1, 1);
    }
    return (double)a;
}

static void check_tile(const struct kernels *kernels, enum precision precision, size_t rows, size_t cols,
                       size_t depth, bool transposed, bool add)
{
    float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], before[MOST * MOST];
    size_t a_row = transposed ? 1 : depth, a_col = transposed ? rows : 1;
    random_normals(1, 0, a, MOST * MOST);
    random_normals(2, 0, b, MOST * MOST);
    random_normals(3, 0, c, MOST * MOST);
    memcpy(before, c, sizeof c);
    struct arena measure = arena_on(NULL);
    tile_products_take(&measure, precision, rows, cols, depth);
    float *block = guard_floats((measure.used + 3) / 4);
    memset(block, 0xff, measure.used); /* NaN */
    struct arena arena = arena_on(precision == PRECISION_BF16 ? block : NULL);
    struct tile_products products = tile_products_take(&arena, precision, rows, cols, depth);
    tile_multiply(&products, kernels, c, cols, a, a_row, a_col, b, cols, rows, cols, depth, add);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)before[i * cols + j] : 0, size = fabs(sum);
            for (size_t k = 0; k < depth; k++) {
                double term = operand(kernels, precision, a[i * a_row + k * a_col]) *
                              operand(kernels, precision, b[k * cols + j]);
                sum += term;
                size += fabs(term);
            }
            check_near((double)c[i * cols + j], sum,
                       (1.5 * (double)depth + 2) * 0.5 * (double)FLT_EPSILON * size, "tile");
        }
    if (precision == PRECISION_FLOAT32) {
        kernels->tiles.product(before, cols, a, a_row, a_col, b, cols, rows, cols, depth, add);
        check_same_bits(c, before, rows * cols * sizeof *c, "the slot itself");
    }
    guard_free(block, (measure.used + 3) / 4);
}

static void tiles_are_products(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 1}, {5, 7, 3}, {64, 64, 64}, {6, 33, 17}, {70, 16, 9}};
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
                for (int bits = 0; bits < 4; bits++)
                    check_tile(*all, (enum precision)precision, shapes[s][0], shapes[s][1], shapes[s][2],
                               bits & 1, bits & 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_are_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
