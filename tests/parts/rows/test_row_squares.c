/* Sums of squares of some rows of both element types, adjacent or apart, with and without a mask. Bugs
   planted and caught: rows apart taken as adjacent; masked rows counted; rows always from 0 on; halves read
   as floats; the last piece of a long row of halves left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/row_squares.h"

#include <math.h>
#include <string.h>

#include "support/check.h"

enum { ROWS = 7, MOST = 8000 };
static const float bad[] = {INFINITY, -INFINITY, NAN};

static double wanted(const float *numbers, struct view view, const uint8_t *mask, size_t first, size_t end)
{
    double sum = 0;
    for (size_t i = first; i < end; i++)
        for (size_t c = 0; c < view.cols && (mask == NULL || mask[i] != 0); c++)
            sum += (double)numbers[i * view.stride + c] * (double)numbers[i * view.stride + c];
    return sum;
}

static void some_rows(void **state)
{
    (void)state;
    static const uint8_t holes[ROWS] = {1, 0, 1, 1, 0, 0, 1};
    static const size_t widths[] = {1, 5, 64, 1100};
    static float numbers[MOST];
    static bf16 halves[MOST];
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    for (size_t i = 0; i < MOST; i++)
        numbers[i] = (float)(i % 29) - 11.5f; /* exact in bfloat16 */
    kernels->bf16.round(halves, MOST, numbers, MOST, 1, MOST);
    for (size_t w = 0; w < 4; w++)
        for (int form = 0; form < 8; form++) {
            struct view view = {.data = form & 1 ? (void *)halves : numbers,
                                .dtype = form & 1 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32,
                                .rows = ROWS,
                                .cols = widths[w],
                                .stride = widths[w] + (form & 2 ? 3 : 0)};
            const uint8_t *mask = form & 4 ? holes : NULL;
            for (size_t first = 0; first <= ROWS; first++)
                for (size_t end = first; end <= ROWS; end++)
                    assert_true(row_squares(kernels, view, mask, first, end) ==
                                wanted(numbers, view, mask, first, end)); /* exact: quarters below 2^53 */
        }
}

static void finite_if_every_number_is(void **state)
{
    (void)state;
    enum { COLS = 5, SIZE = ROWS * COLS };
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    float numbers[SIZE];
    struct view view = view_of(numbers, ROWS, COLS);
    for (size_t i = 0; i < SIZE; i++)
        numbers[i] = 3.4e38f;
    assert_true(isfinite(row_squares(kernels, view, NULL, 0, ROWS)));
    for (size_t i = 0; i < SIZE; i++)
        for (size_t b = 0; b < 3; b++) {
            numbers[i] = bad[b];
            assert_true(!isfinite(row_squares(kernels, view, NULL, 0, ROWS)));
            numbers[i] = 3.4e38f;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_rows),
        cmocka_unit_test(finite_if_every_number_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
