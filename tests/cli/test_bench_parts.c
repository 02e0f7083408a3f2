/* What the kinds of `bench` share, with a clock of the test's own: medians, the number of runs, angles.
   Planted and caught: the upper one of two middle values; at least 2 runs instead of 3; half the angle.
   Covers: bench.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <time.h>

#include "cli/bench/bench.c"
#include "cli/bench/inputs.c"
#include "cli/shared/tool/halves.c"
#include "cli/shared/tool/on_device.c"
#include "support/check.h"

/* ---- what these files call elsewhere in the tool ---- */

static double now;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){(time_t)floor(now), (long)((now - floor(now)) * 1e9)};
    return 0;
}

int tool_fail(int code, const char *format, ...)
{
    (void)format;
    return code;
}

int tool_fail_status(const hashattn_context *context, hashattn_status status)
{
    (void)context;
    return hashattn_status_exit_code(status);
}

int options_fail(const struct options *options, const char *format, ...)
{
    (void)options, (void)format;
    return EXIT_USAGE;
}

void options_add_text(struct options *options, const char *name, const char **target, const char *argument,
                      const char *help)
{
    (void)options, (void)name, (void)target, (void)argument, (void)help;
}

void options_offer(struct options *options, const char *const *values)
{
    (void)options, (void)values;
}

void options_add_count(struct options *options, const char *name, size_t *target, const char *argument,
                       const char *help, double minimum, double maximum)
{
    (void)options, (void)name, (void)target, (void)argument, (void)help, (void)minimum, (void)maximum;
}

/* ---- the tests ---- */

static void medians(void **state)
{
    (void)state;
    double odd[] = {3, -1, 10}, even[] = {8, 1, 4, 2}, two[] = {5, 4}, one[] = {7};
    assert_true(bench_median(odd, 3) == 3 && bench_median(even, 4) == 3);
    assert_true(bench_median(two, 2) == 4.5 && bench_median(one, 1) == 7);
    assert_true(isnan(bench_median(one, 0)));
}

struct work {
    double seconds; /* of every run */
    int runs, fails_at;
};

/* The parts of run i take 100 + (7 i mod 5) and i milliseconds. */
static int run_work(void *user, double *part_ms)
{
    struct work *work = user;
    now += work->seconds;
    part_ms[0] = 100 + 7 * work->runs % 5;
    part_ms[1] = work->runs++;
    return work->runs == work->fails_at ? EXIT_WORK : EXIT_GOOD;
}

static void runs(void **state)
{
    (void)state;
    const struct {
        double seconds;
        size_t repeats, want;
    } cases[] = {{0.3, 5, 5},  {1.5, 0, 3},     {0.6, 0, 3},    {0.45, 0, 4},
                 {0.25, 0, 8}, {0.0825, 0, 24}, {0.078, 0, 25}, {1e-6, 0, 25}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct work work = {.seconds = cases[i].seconds};
        double median_ms[2] = {0};
        size_t measured = 0;
        assert_int_equal(bench_measure(run_work, &work, cases[i].repeats, 2, median_ms, &measured),
                         EXIT_GOOD);
        assert_int_equal(measured, cases[i].want);
        assert_int_equal(work.runs, (int)cases[i].want + 1); /* the first one is not counted */
        assert_true(median_ms[1] == 0.5 * (1 + (double)cases[i].want));
        if (cases[i].want == 5)
            assert_true(median_ms[0] == 102); /* of 102, 104, 101, 103, 100 */
    }
    for (int at = 1; at <= 3; at++) { /* the first failure ends the measurement */
        struct work work = {.fails_at = at};
        double median_ms[2] = {-1, -1};
        size_t measured = 77;
        assert_int_equal(bench_measure(run_work, &work, 9, 2, median_ms, &measured), EXIT_WORK);
        assert_true(work.runs == at && median_ms[0] == -1 && measured == 77);
    }
}

static void seconds(void **state)
{
    (void)state;
    now = 12.25;
    assert_true(fabs(bench_seconds() - 12.25) < 1e-12);
}

static void angles(void **state)
{
    (void)state;
    const float a[] = {2, 0, 0}, b[] = {0, 5, 0}, c[] = {-3, 0, 0}, d[] = {1, 1, 0}, zero[] = {0, 0, 0},
                e[] = {1, 1e-6f, 0};
    assert_true(bench_angle(a, a, 3) == 0 && fabs(bench_angle(a, b, 3) - M_PI_2) < 1e-12);
    assert_true(fabs(bench_angle(a, c, 3) - M_PI) < 1e-12 && fabs(bench_angle(a, d, 3) - M_PI / 4) < 1e-12);
    assert_true(fabs(bench_angle(a, e, 3) / 1e-6 - 1) < 1e-6);
    assert_true(bench_angle(a, zero, 3) == M_PI_2 && bench_angle(zero, a, 3) == M_PI_2);
    assert_true(bench_angle(a, d, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(medians), cmocka_unit_test(runs),
                                       cmocka_unit_test(seconds), cmocka_unit_test(angles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
