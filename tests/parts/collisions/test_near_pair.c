/* Collision probabilities of nearly equal and nearly opposite unit vectors, against the angle they were made
   with. Bugs planted and caught: the angle from the dot product; sums and differences exchanged; a bound
   below that of the slot.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/near_pair.h"

#include <math.h>

#include "support/check.h"

static void chances_follow_the_angle(void **state)
{
    (void)state;
    static const double angles[] = {0, 1e-6, 1e-4, 1e-2, 0.04};
    const double pi = acos(-1);
    for (size_t i = 0; i < sizeof angles / sizeof *angles; i++)
        for (int opposite = 0; opposite < 2; opposite++)
            for (size_t bits = 1; bits < 10; bits += 4) {
                double angle = opposite ? pi - angles[i] : angles[i], p = pow(1 - angle / pi, (double)bits);
                const float query[] = {1, 0, 0}, key[] = {(float)cos(angle), (float)sin(angle), 0};
                float dot = query[0] * key[0];
                assert_true(near_pair(dot, 2));
                check_near((double)near_pair_chance(query, key, 3, bits), p, 1e-6 * p + (opposite ? 1e-7 : 0),
                           "chance");
            }
    const float zero[3] = {0}, unit[3] = {0, 1, 0};
    assert_true(near_pair(0, 0) && near_pair_chance(zero, zero, 3, 4) == 1);
    assert_false(near_pair(0, 1));
    assert_false(near_pair(0.9f, 2) || near_pair(-0.9f, 2));
    check_near((double)near_pair_chance(zero, unit, 3, 2), 0.25, 1e-6, "a zero row");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chances_follow_the_angle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
