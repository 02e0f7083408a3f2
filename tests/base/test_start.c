/* Initial values of learned parameters: their values, their moments, and what determines them. Bugs planted
   and caught: scale not applied to normals, to uniforms, to the constant; uniforms from 0 to 1; the key of
   another row; the last number not written; zeros not written.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/start.h"

#include <math.h>
#include <string.h>

#include "support/check.h"

enum { COUNT = 40001 };
static float values[COUNT + 1], again[COUNT + 1];

static void fill(enum param_start start, float scale, uint64_t key, float *to)
{
    memset(to, 0xff, (COUNT + 1) * sizeof *to);
    start_fill(start, scale, key, to, COUNT);
    assert_true(isnan(to[COUNT]));
}

static void check_all(enum param_start start, float scale, float value)
{
    fill(start, scale, 3, values);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(values[i] == value);
}

static void fixed_starts_hold_one_number(void **state)
{
    (void)state;
    check_all(START_ZEROS, 9, 0);
    check_all(START_ONES, 9, 1);
    check_all(START_CONSTANT, -0.25f, -0.25f);
}

static void random_starts_have_their_moments(void **state)
{
    (void)state;
    double mean[2] = {0}, square[2] = {0}, most = 0, count = COUNT;
    fill(START_NORMAL, 0.02f, 5, values);
    fill(START_UNIFORM, 0.5f, 5, again);
    for (size_t i = 0; i < COUNT; i++) {
        double normal = (double)values[i] / 0.02, uniform = (double)again[i] / 0.5;
        mean[0] += normal / count, mean[1] += uniform / count;
        square[0] += normal * normal / count, square[1] += uniform * uniform / count;
        most = fmax(most, fabs(uniform));
    }
    check_near(mean[0], 0, 5 / sqrt(count), "mean of normals");
    check_near(square[0], 1, 5 * sqrt(2 / count), "variance of normals");
    check_near(mean[1], 0, 5 * sqrt(1 / 3.0 / count), "mean of uniforms");
    check_near(square[1], 1 / 3.0, 5 * sqrt(4 / 45.0 / count), "variance of uniforms");
    assert_true(most <= 1 && most > 0.999);
}

static void the_key_decides(void **state)
{
    (void)state;
    static const enum param_start kinds[] = {START_NORMAL, START_UNIFORM};
    for (size_t k = 0; k < 2; k++) {
        fill(kinds[k], 1, 7, values);
        fill(kinds[k], 1, 7, again);
        check_same_bits(values, again, sizeof values, "the same key");
        fill(kinds[k], 1, 8, again);
        assert_memory_not_equal(values, again, 16 * sizeof *values);
        start_fill(kinds[k], 1, 7, again, 100);
        check_same_bits(values, again, 100 * sizeof *values, "a shorter tensor");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_starts_hold_one_number),
        cmocka_unit_test(random_starts_have_their_moments),
        cmocka_unit_test(the_key_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
