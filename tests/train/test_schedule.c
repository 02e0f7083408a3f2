/* The one-cycle schedule against numbers computed by hand from its description (a line from peak/25 at step 0
   to the peak at step warmup - 1, a line from there to peak/250,000 at the last step, beta1 mirrored). Bugs
   planted and caught: the corner at `warmup` instead of warmup - 1; the end divided from the peak instead of
   the start (4e-6 for 1.6e-7); beta1 rising first; the warm-up not scaled; the fall to 0 at the last step
   instead of after it; the first step without a rate; halved a step after the pass is complete, or by the
   steps since the warm-up.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/schedule.h"

#include <math.h>

#include "support/check.h"

/* Every value below is the result of a handful of operations on numbers under 1. */
#define FEW_ROUNDINGS 4e-16

static void check_point(const struct schedule *schedule, int64_t step, double rate, double beta1)
{
    struct schedule_point point = schedule_at(schedule, step);
    check_near(point.rate, rate, FEW_ROUNDINGS * schedule->peak, "rate");
    check_near(point.beta1, beta1, FEW_ROUNDINGS, "beta1");
}

static void values_of_a_small_cycle(void **state)
{
    (void)state;
    /* Steps 0, 1, 2 climb from .004 to .1; seven equal steps go down to .004 / 10,000 = 4e-7. */
    const struct schedule cycle = {.steps = 10, .warmup = 3, .peak = 0.1, .beta1 = 0.9, .cycle_beta1 = true};
    check_point(&cycle, 0, 0.004, 0.95);
    check_point(&cycle, 1, 0.052, 0.90);
    check_point(&cycle, 2, 0.1, 0.85);
    check_point(&cycle, 3, 0.1 - 0.0999996 / 7, 0.85 + 0.1 / 7);
    check_point(&cycle, 8, 0.1 - 0.0999996 * 6 / 7, 0.85 + 0.6 / 7);
    check_point(&cycle, 9, 4e-7, 0.95);
    struct schedule fixed = cycle;
    fixed.cycle_beta1 = false;
    for (int64_t step = 0; step < 10; step++) {
        assert_true(schedule_at(&fixed, step).beta1 == 0.9);
        assert_true(schedule_at(&fixed, step).rate == schedule_at(&cycle, step).rate);
    }
}

static void values_of_the_listops_preset(void **state)
{
    (void)state;
    const struct schedule cycle = {
        .steps = 5000, .warmup = 1000, .peak = 1e-4, .beta1 = 0.9, .cycle_beta1 = true};
    check_point(&cycle, 0, 4e-6, 0.95);
    check_point(&cycle, 333, 4e-6 + 9.6e-5 / 3, 0.95 - 0.1 / 3);
    check_point(&cycle, 999, 1e-4, 0.85);
    check_point(&cycle, 2999, (1e-4 + 4e-10) / 2, 0.90);
    check_point(&cycle, 4999, 4e-10, 0.95);
}

static void edges(void **state)
{
    (void)state;
    struct schedule none = {.steps = 4, .warmup = 0, .peak = 1, .beta1 = 0.9, .cycle_beta1 = true};
    check_point(&none, 0, 1 - (1 - 4e-6) / 4, 0.85 + 0.1 / 4);
    check_point(&none, 3, 4e-6, 0.95);
    struct schedule one = {.steps = 4, .warmup = 1, .peak = 1, .beta1 = 0.9, .cycle_beta1 = true};
    check_point(&one, 0, 1, 0.85);
    check_point(&one, 3, 4e-6, 0.95);
    struct schedule all = {.steps = 4, .warmup = 4, .peak = 1, .beta1 = 0.9, .cycle_beta1 = true};
    check_point(&all, 3, 1, 0.85);
    struct schedule single = {.steps = 1, .warmup = 1, .peak = 1, .beta1 = 0.9, .cycle_beta1 = false};
    check_point(&single, 0, 1, 0.9);
    single.warmup = 0;
    check_point(&single, 0, 4e-6, 0.9);
}

static void the_other_schedules_rise_and_fall(void **state)
{
    (void)state;
    struct schedule s = {.kind = SCHEDULE_LINEAR, .steps = 12, .warmup = 4, .peak = 0.8, .beta1 = 0.9};
    s.batch = s.epoch = 100;
    s.cycle_beta1 = true; /* has no effect here */
    for (int64_t step = 0; step < 4; step++) {
        for (s.kind = SCHEDULE_LINEAR; s.kind <= SCHEDULE_HALVING; s.kind++)
            check_point(&s, step, 0.2 * (double)(step + 1), 0.9);
        s.kind = SCHEDULE_LINEAR;
    }
    check_point(&s, 4, 0.8 * 8 / 9, 0.9);
    check_point(&s, 11, 0.8 / 9, 0.9);
    s.kind = SCHEDULE_COSINE;
    check_point(&s, 6, 0.8 * 0.75, 0.9); /* a third of the fall: (1 + cos 60 degrees) / 2 */
    check_point(&s, 9, 0.8 * 0.25, 0.9);
    s.kind = SCHEDULE_CONSTANT;
    check_point(&s, 4, 0.8, 0.9);
    check_point(&s, 11, 0.8, 0.9);
    s.warmup = 0;
    check_point(&s, 0, 0.8, 0.9);
    s.kind = SCHEDULE_LINEAR;
    check_point(&s, 0, 0.8 * 12 / 13, 0.9);
    s.warmup = 12;
    check_point(&s, 11, 0.8, 0.9);
}

/* Passes of 10 examples in steps of 4: steps 0 .. 2 begin in the first one, 3 and 4 in the second one. */
static void the_rate_halves_after_each_pass(void **state)
{
    (void)state;
    struct schedule s = {.kind = SCHEDULE_HALVING,
                         .steps = 1000000000,
                         .warmup = 1,
                         .peak = 0.8,
                         .beta1 = 0.9,
                         .batch = 4,
                         .epoch = 10};
    static const double shares[] = {1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
    for (int64_t step = 0; step < 9; step++)
        check_point(&s, step, 0.8 * shares[step], 0.9);
    s.warmup = 4;
    check_point(&s, 1, 0.4, 0.9);
    check_point(&s, 3, 0.8, 0.9); /* the peak; passes of the warm-up count afterwards */
    check_point(&s, 4, 0.4, 0.9);
    s.batch = (int64_t)65536 * 65536;
    check_point(&s, 999999999, 0, 0.9);
}

static void warmup_scales_with_steps(void **state)
{
    (void)state;
    assert_int_equal(schedule_scaled_warmup(5000, 1000, 5000), 1000);
    assert_int_equal(schedule_scaled_warmup(5000, 1000, 400), 80);
    assert_int_equal(schedule_scaled_warmup(35000, 175, 1000), 5);
    assert_int_equal(schedule_scaled_warmup(35000, 175, 10), 0);
    assert_int_equal(schedule_scaled_warmup(10, 10, 3), 3);
    assert_int_equal(schedule_scaled_warmup(10, 20, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_a_small_cycle),
        cmocka_unit_test(values_of_the_listops_preset),
        cmocka_unit_test(edges),
        cmocka_unit_test(the_other_schedules_rise_and_fall),
        cmocka_unit_test(the_rate_halves_after_each_pass),
        cmocka_unit_test(warmup_scales_with_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
