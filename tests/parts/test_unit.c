/* Unit rows, and what counts as zero. Bugs tried and caught: short rows left in place, the limit at 1e-11.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/unit.h"

#include "support/check.h"

enum { D = 5, LD = 8 };

static void short_rows_are_zero(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        static const float length[4] = {0, 9e-13f, 1.1e-12f, 1e-30f};
        float x[4][D] = {{0}}, unit[4][LD], norm[4];
        for (size_t i = 0; i < 4; i++)
            x[i][3] = length[i];
        unit_take(*kernels, unit[0], LD, norm, x[0], D, 4, D);
        for (size_t i = 0; i < 4; i++)
            check_near((double)unit[i][3], i == 2, 1e-6, "coordinate of a short row");
    }
}

static void rows_are_padded_to_cache_lines(void **state)
{
    (void)state;
    static const size_t want[][2] = {{1, 16}, {15, 16}, {16, 16}, {17, 32}, {64, 64}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(unit_padded(want[i][0]), want[i][1]);
    assert_true(unit_padded(SIZE_MAX) > SIZE_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_rows_are_zero),
        cmocka_unit_test(rows_are_padded_to_cache_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
