/* Points grouped into modes: labels, order and sizes of points at known angles.

   Planted and caught: the whole width of the kernel; labels in the order found; the last mode not sorted.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/modes.h"

#include <math.h>

#include "support/check.h"

static void points_are_grouped_by_angle(void **state)
{
    (void)state;
    /* 9 bits: a mode reaches 10 degrees from its first point. */
    static const double degrees[] = {0, 90, 9.9, 80.1, -9.9, 10.1, 95, 200, -160};
    static const size_t want[] = {0, 1, 0, 1, 0, 2, 1, 3, 3};
    enum { N = sizeof want / sizeof *want };
    float z[N][2];
    size_t labels[N], first[N], sizes[N], ranks[N];
    for (size_t i = 0; i < N; i++) {
        z[i][0] = (float)cos(degrees[i] / 180 * 3.14159265358979);
        z[i][1] = (float)sin(degrees[i] / 180 * 3.14159265358979);
    }
    assert_int_equal(modes_group(z[0], N, 2, 9, labels, first, sizes, ranks), 4);
    /* 0 and 90 have three points each, 200 two, 10.1 one. */
    const size_t place[] = {0, 1, 3, 2}, firsts[] = {0, 1, 7, 5}, counts[] = {3, 3, 2, 1};
    for (size_t i = 0; i < N; i++)
        assert_int_equal(labels[i], place[want[i]]);
    for (size_t k = 0; k < 4; k++)
        assert_true(first[k] == firsts[k] && sizes[k] == counts[k]);
    assert_int_equal(modes_group(z[0], 0, 2, 9, labels, first, sizes, ranks), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_grouped_by_angle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
