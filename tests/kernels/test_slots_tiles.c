/* tiles.product and tiles.transpose on every table; tiles.collisions is in test_slots_collision.c.
   Bugs planted and caught: a partial vector of B read whole, or of C written whole (guard page); add ignored
   in blocks of two rows; a_row taken for a_col; four rows taken one row too early; k falling in the last row
   alone (row alone); the columns of the last vectors taken from the first; a last block of three vectors
   computed as two; two rows of a transposed block exchanged; an edge block not transposed.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static void check_product(const struct kernels *kernels, size_t rows, size_t cols, size_t depth, bool turned,
                          bool add)
{
    char text[128];
    size_t a_row = turned ? 1 : depth + 2, a_col = turned ? rows + 1 : 1, ld_b = cols + 3, ld_c = cols + 1;
    size_t size_a = rows * depth == 0 ? 0 : (rows - 1) * a_row + (depth - 1) * a_col + 1;
    size_t size_b = depth == 0 ? 0 : (depth - 1) * ld_b + cols, size_c = rows == 0 ? 0 : rows * ld_c - 1;
    float *a = normals(rows, size_a), *b = normals(cols, size_b), *c = normals(depth, size_c);
    float *before = copy_of(c, size_c), *alone = copy_of(c, size_c);
    kernels->tiles.product(c, ld_c, a, a_row, a_col, b, ld_b, rows, cols, depth, add);
    of(text, "tiles.product", kernels, rows * 1000 + cols, depth);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j++) {
            double sum = add ? (double)before[i * ld_c + j] : 0, size = fabs(sum);
            for (size_t k = 0; k < depth; k++) {
                double term = (double)a[i * a_row + k * a_col] * (double)b[k * ld_b + j];
                sum += term;
                size += fabs(term);
            }
            check_near((double)c[i * ld_c + j], sum, (double)(depth + 1) * ROUNDING * size, text);
        }
        if (i + 1 < rows)
            check_same_bits(&c[i * ld_c + cols], &before[i * ld_c + cols], sizeof *c, "beside the row");
        kernels->tiles.product(alone + i * ld_c, ld_c, a + i * a_row, a_row, a_col, b, ld_b, 1, cols, depth,
                               add);
    }
    check_same_bits(alone, c, size_c * sizeof *c, "the rows one by one");
    guard_free(a, size_a);
    guard_free(b, size_b);
    guard_free(c, size_c);
    guard_free(before, size_c);
    guard_free(alone, size_c);
}

static void tile_product_is_the_product(void **state)
{
    (void)state;
    static const size_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 64};
    FOR_EACH_TABLE(kernels)
    {
        for (size_t r = 0; r < 11; r++)
            for (size_t w = 0; w < NUM_WIDTHS; w++)
                check_product(kernels, rows[r], widths[w], 1 + (r + w) % 9, (r + w) % 2, (r + w) % 3 == 0);
        check_product(kernels, 5, 0, 3, false, false);
        check_product(kernels, 5, 20, 0, false, false);
        check_product(kernels, 5, 20, 0, false, true);
        check_product(kernels, 64, 64, 64, false, false);
        check_product(kernels, 70, 72, 200, true, true);
    }
}

static void tile_transpose_is_exact(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t r = 0; r < NUM_WIDTHS; r++)
        for (size_t w = 0; w < NUM_WIDTHS; w++) {
            size_t rows = widths[r], cols = widths[w], ld_in = cols + 1, ld_out = rows + 2;
            size_t size_in = rows * ld_in - 1, size_out = cols * ld_out - 2;
            float *in = oddities(1, size_in), *out = normals(2, size_out), *want = copy_of(out, size_out);
            kernels->tiles.transpose(out, ld_out, in, ld_in, rows, cols);
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < cols; j++)
                    want[j * ld_out + i] = in[i * ld_in + j];
            check_same_bits(out, want, size_out * sizeof *out,
                            of(text, "tiles.transpose", kernels, rows, cols));
            guard_free(in, size_in);
            guard_free(out, size_out);
            guard_free(want, size_out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_product_is_the_product),
        cmocka_unit_test(tile_transpose_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
