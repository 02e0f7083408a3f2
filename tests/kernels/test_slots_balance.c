/* rows.balance on every table against double precision, with zero columns and without sums. Bugs planted and
   caught: the last row of an odd number left out; sums of the last columns only; the fourth row repeated;
   sums below FLT_MIN inverted; weights of two rows exchanged.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static void check(const struct kernels *kernels, size_t rows, size_t cols, float of_zero)
{
    char text[128];
    size_t ld = cols + 3, size = rows == 0 ? 0 : rows * ld - 3;
    float *p = normals(rows, size), *of_row = normals(cols, rows), *of_col = guard_floats(cols),
          *sums = guard_floats(rows), *alone = guard_floats(cols);
    for (size_t i = 0; i < size; i++)
        p[i] = i % ld >= cols ? NAN : i % ld % 5 == 1 ? 0 : expf(p[i]);
    for (size_t i = 0; i < rows; i++)
        of_row[i] = expf(of_row[i]);
    of(text, "rows.balance", kernels, rows, cols);
    kernels->rows.balance(of_col, sums, p, ld, of_row, rows, cols, of_zero);
    kernels->rows.balance(alone, NULL, p, ld, of_row, rows, cols, of_zero);
    check_same_bits(alone, of_col, cols * sizeof *of_col, "without sums");
    for (size_t c = 0; c < cols; c++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++)
            sum += (double)of_row[i] * (double)p[i * ld + c];
        if (sum == 0)
            assert_true(of_col[c] == of_zero);
        else
            check_near((double)of_col[c], 1 / sum, ((double)rows + 3) * ROUNDING / sum, text);
    }
    for (size_t i = 0; i < rows; i++) {
        double sum = 0, size_of = 0;
        for (size_t c = 0; c < cols; c++) {
            sum += (double)p[i * ld + c] * (double)of_col[c];
            size_of += fabs((double)p[i * ld + c] * (double)of_col[c]);
        }
        check_near((double)sums[i], sum, ((double)cols + 2) * ROUNDING * size_of, text);
    }
    guard_free(p, size);
    guard_free(of_row, rows);
    guard_free(of_col, cols);
    guard_free(sums, rows);
    guard_free(alone, cols);
}

static void weights_and_sums(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t rows = 1; rows < 70; rows += rows < 9 ? 1 : 11)
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            check(kernels, rows, widths[w], w % 2 ? 0.0f : 2.0f);
}

/* Whatever the table, a sum of exactly FLT_MIN is not inverted, and the next number is. */
static void the_least_sum(void **state)
{
    (void)state;
    const float p[2] = {FLT_MIN, nextafterf(FLT_MIN, 1)}, one = 1;
    FOR_EACH_TABLE(kernels)
    {
        float of_col[2];
        kernels->rows.balance(of_col, NULL, p, 2, &one, 1, 2, 7);
        assert_true(of_col[0] == 7 && of_col[1] > 1e37f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_and_sums), cmocka_unit_test(the_least_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
