/* Unit rows, what counts as zero, and rows whose length overflows float. Bugs planted and caught: short
   rows left in place, the limit at 1e-11; long rows treated as zeros, with an infinite norm, or read from
   the previous row; the gradient of a short row infinite.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "parts/rows/bounded.h"
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

static void long_rows_are_rows(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        float x[3][D + 1] = {{1, 2, 3, 4, 5, 9},
                             {3e38f, -3e38f, 0, 1e38f, 1e20f, 9},
                             {3.4e38f, 0, 0, 0, 0, 9}},
                       unit[3][LD], norm[3];
        memset(unit, 0xff, sizeof unit);
        unit_take(*kernels, unit[0], LD, norm, x[0], D + 1, 3, D);
        double length = sqrt(19.0) * 1e38;
        for (size_t c = 0; c < D; c++) {
            check_near((double)unit[0][c], ((double)c + 1) / sqrt(55), 1e-6, "short row");
            check_near((double)unit[1][c], (double)x[1][c] / length, 1e-6, "long row");
            assert_true(unit[2][c] == (c == 0));
        }
        for (size_t c = D; c < LD; c++)
            assert_true(unit[1][c] == 0);
        assert_true(norm[1] == FLT_MAX && norm[2] == x[2][0]);
        check_near((double)norm[0], sqrt(55), 1e-6, "norm");
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

static void gradients_of_short_rows_are_finite(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        const float du[2][2] = {{1e30f, -1e30f}, {1e30f, -1e30f}}, unit[2][2] = {{1, 0}, {1, 0}};
        const float norm[2] = {2e-12f, 0.5f};
        float dx[2][2] = {{5, 5}, {5, 5}};
        unit_give(*kernels, dx[0], 2, du[0], unit[0], 2, norm, 2, 2);
        assert_true(dx[0][0] == 5 && dx[0][1] == -DOUBLE_MOST && dx[1][0] == 5);
        check_near((double)dx[1][1], -2e30, 1e25, "a long row");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_rows_are_zero),
        cmocka_unit_test(long_rows_are_rows),
        cmocka_unit_test(rows_are_padded_to_cache_lines),
        cmocka_unit_test(gradients_of_short_rows_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
