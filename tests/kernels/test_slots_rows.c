/* The arithmetic, sums and checks of rows on every table. rows.largest_size is in test_slots_fixed.c, the
   selections are in test_slots_select.c.
   Bugs planted and caught: axpy unfused; a gate that a NaN shuts, or 0 opens; squares counted twice or
   skipped; the fourth row dot repeated; the factor of row 0 for all; both factors of rows.scale_both
   multiplied first.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static void scaling_is_exact(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = w % 6, cols = widths[w], ld = cols + 2, size = rows == 0 ? 0 : rows * ld - 2;
        float *x = oddities(1, size), *factor = oddities(2, rows), *want = copy_of(x, size);
        kernels->rows.scale(x, ld, factor, rows, cols);
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < cols; c++)
                want[i * ld + c] *= factor[i];
        check_same_bits(x, want, size * sizeof *x, of(text, "rows.scale", kernels, rows, cols));
        float *of_col = oddities(3, cols);
        kernels->rows.scale_both(x, ld, factor, of_col, rows, cols);
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < cols; c++)
                want[i * ld + c] = want[i * ld + c] * factor[i] * of_col[c];
        check_same_bits(x, want, size * sizeof *x, of(text, "rows.scale_both", kernels, rows, cols));
        guard_free(x, size);
        guard_free(factor, rows);
        guard_free(of_col, cols);
        guard_free(want, size);
    }
}

static void row_dots_are_dots(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t rows = w % 10, cols = widths[w], ld = cols + 2, size = rows == 0 ? 0 : rows * ld - 2;
        float *a = normals(1, size), *b = normals(2, size), *out = guard_floats(rows);
        kernels->rows.dots(out, a, ld, b, ld, rows, cols);
        for (size_t i = 0; i < rows; i++) {
            double sum = 0, terms = 0;
            for (size_t c = 0; c < cols; c++) {
                sum += (double)a[i * ld + c] * (double)b[i * ld + c];
                terms += fabs((double)a[i * ld + c] * (double)b[i * ld + c]);
            }
            check_near((double)out[i], sum, ((double)cols + 1) * ROUNDING * terms,
                       of(text, "rows.dots", kernels, rows, cols));
            float alone;
            kernels->rows.dots(&alone, a + i * ld, ld, b + i * ld, ld, 1, cols);
            check_same_bits(&alone, &out[i], sizeof alone, "a row alone");
        }
        guard_free(a, size);
        guard_free(b, size);
        guard_free(out, rows);
    }
}

static void arithmetic_is_exact(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t n = w % 6, dim = widths[w], size = n * dim;
        float *x = oddities(1, size), *y = oddities(2, size), *want = copy_of(y, size);
        kernels->rows.axpy(y, 0.3f, x, size);
        for (size_t i = 0; i < size; i++)
            want[i] = fmaf(0.3f, x[i], want[i]);
        check_same_bits(y, want, size * sizeof *y, of(text, "axpy", kernels, n, dim));
        kernels->rows.multiply(y, x, size);
        for (size_t i = 0; i < size; i++)
            want[i] *= x[i];
        check_same_bits(y, want, size * sizeof *y, of(text, "multiply", kernels, n, dim));
        float *gate = oddities(4, size), *kept = copy_of(gate, size);
        static const float odd[] = {0.0f, -0.0f, NAN, 0x1p-149f};
        for (size_t i = 0; i < size; i++)
            gate[i] = i % 7 < 4 ? odd[i % 7] : gate[i];
        memcpy(kept, gate, size * sizeof *gate);
        kernels->rows.gate(kept, y, gate, size);
        for (size_t i = 0; i < size; i++)
            assert_memory_equal(&kept[i], gate[i] <= 0 ? &(float){0} : &want[i], sizeof *kept);
        kernels->rows.gate(gate, gate, gate, size); /* in place */
        for (size_t i = 0; i < size; i++)
            assert_true(gate[i] > 0 || isnan(gate[i]) || (gate[i] == 0 && !signbit(gate[i])));
        guard_free(gate, size);
        guard_free(kept, size);
        guard_free(x, size);
        guard_free(y, size);
        guard_free(want, size);
    }
}

/* One non-finite number of each kind at each position; huge and denormal numbers are finite. Gaps between
   rows are ignored. */
static void what_is_not_finite_is_found(void **state)
{
    (void)state;
    static const float not [] = {NAN, -NAN, INFINITY, -INFINITY};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t gap = 0; gap < 3; gap += 2) {
            size_t rows = 3, cols = widths[w], ld = cols + gap, count = rows * ld - gap;
            float *x = normals(w, count);
            x[0] = FLT_MAX, x[count - 1] = 1e-45f;
            for (size_t i = 0; i < count; i++) {
                float before = x[i];
                x[i] = not [i % 4];
                assert_int_equal(kernels->rows.all_finite(x, ld, rows, cols), i % ld >= cols);
                x[i] = i % ld < cols ? before : NAN;
            }
            assert_true(kernels->rows.all_finite(x, ld, rows, cols));
            assert_true(kernels->rows.all_finite(x, ld, 0, cols));
            guard_free(x, count);
        }
}

static void sum_squares_is_in_double(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5, 15, 16, 17, 100, 4095, 4096, 4097, 10000};
    FOR_EACH_TABLE(kernels)
    for (size_t s = 0; s < 22; s++) {
        size_t n = sizes[s / 2];
        float *x = s % 2 ? oddities(s, n) : normals(s, n);
        double want = 0;
        for (size_t i = 0; i < n; i++)
            want += (double)x[i] * (double)x[i];
        check_near(kernels->rows.sum_squares(x, n), want, want * (double)n * DBL_EPSILON, "rows.sum_squares");
        guard_free(x, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scaling_is_exact),         cmocka_unit_test(row_dots_are_dots),
        cmocka_unit_test(arithmetic_is_exact),      cmocka_unit_test(what_is_not_finite_is_found),
        cmocka_unit_test(sum_squares_is_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
