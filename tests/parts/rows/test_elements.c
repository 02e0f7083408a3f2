/* Rows of both kinds of element to floats and back; gaps stay unchanged. Bugs planted and caught: strides
   of one side used for the other; sizes of elements swapped.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/elements.h"

#include <string.h>

#include "support/check.h"

enum { ROWS = 3, COLS = 5, LD = 7, LD_STORED = 6 };

static void rows_come_and_go(void **state)
{
    (void)state;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    assert_true(element_bytes(DTYPE_FLOAT32) == 4 && element_bytes(DTYPE_BFLOAT16) == 2);
    for (int half = 0; half < 2; half++) {
        enum dtype dtype = half ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
        float numbers[ROWS * LD_STORED], floats[ROWS * LD];
        bf16 halves[ROWS * LD_STORED];
        void *stored = half ? (void *)halves : (void *)numbers;
        for (size_t i = 0; i < ROWS * LD_STORED; i++)
            numbers[i] = (float)i - 4.5f; /* exact in bfloat16 */
        kernels->bf16.round(halves, LD_STORED, numbers, LD_STORED, ROWS, LD_STORED);
        for (size_t i = 0; i < ROWS * LD; i++)
            floats[i] = 1000;
        elements_load(kernels, floats, LD, stored, LD_STORED, dtype, ROWS, COLS);
        for (size_t i = 0; i < ROWS * LD; i++)
            assert_true(floats[i] == (i % LD < COLS ? (float)(i / LD * LD_STORED + i % LD) - 4.5f : 1000));
        for (size_t i = 0; i < ROWS * LD; i++)
            floats[i] = 2 * (float)(i / LD) + 0.25f;
        elements_store(kernels, stored, LD_STORED, dtype, floats, LD, ROWS, COLS);
        if (half)
            kernels->bf16.widen(numbers, LD_STORED, halves, LD_STORED, ROWS, LD_STORED);
        for (size_t i = 0; i < ROWS * LD_STORED; i++)
            assert_true(numbers[i] ==
                        (i % LD_STORED < COLS ? 2 * (float)(i / LD_STORED) + 0.25f : (float)i - 4.5f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_come_and_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
