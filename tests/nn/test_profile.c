/* Laps: each part gets its time, the parts add up to the elapsed time, and a NULL profile is allowed
   everywhere. Bugs planted and caught: time before `begin` counted; the time of a pass charged to its last
   part; a watch that is not cleared after a lap; helpers' time left out; clear that leaves the threads' time;
   the second lap of a part replacing both.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/profile.h"

#include "base/clock.h"
#include "support/check.h"
#include "support/fake_clock.h"

static void spin(double seconds)
{
    for (double end = clock_seconds() + seconds; clock_seconds() < end;)
        ;
}

static struct profile *new_profile(struct host *host, int threads)
{
    struct pool *pool;
    struct profile *profile;
    host_init(host);
    check_status(host, pool_new(host, threads, &pool), HASHATTN_OK, NULL);
    check_status(host, profile_new(host, pool, &profile), HASHATTN_OK, NULL);
    return profile;
}

static void drop(struct host *host, struct profile *profile)
{
    struct pool *pool = profile->pool;
    profile_free(host, profile);
    pool_free(host, pool);
}

static double total(const double *seconds)
{
    double sum = 0;
    for (int i = 0; i < PROFILE_PARTS; i++)
        sum += seconds[i];
    return sum;
}

static void time_goes_to_the_part_that_laps(void **state)
{
    (void)state;
    struct host host;
    struct profile *profile = new_profile(&host, 1);
    spin(0.02);
    double start = clock_seconds();
    profile_begin(profile);
    spin(0.01);
    profile_lap(profile, PROFILE_DATA);
    spin(0.002);
    profile_lap(profile, PROFILE_OPTIMISER);
    double passed = clock_seconds() - start;
    assert_true(profile->wall[PROFILE_DATA] >= 0.01 && profile->wall[PROFILE_OPTIMISER] >= 0.002);
    assert_true(total(profile->wall) <= passed + 1e-9); /* without the time before begin */
    check_near(profile->thread[PROFILE_DATA], profile->wall[PROFILE_DATA], 1e-6, "one thread is always busy");
    profile_clear(profile);
    check_near(total(profile->wall) + total(profile->thread), 0, 0, "cleared");
    drop(&host, profile);
}

static void work(void *argument, size_t index, int worker)
{
    (void)index;
    struct watch *watch = profile_watch(argument, worker);
    spin(0.003);
    watch_lap(watch, PROFILE_NORM);
    spin(0.009);
    watch_lap(watch, PROFILE_PRODUCTS);
}

static void a_pass_is_shared_out_by_what_workers_lapped(void **state)
{
    (void)state;
    struct host host;
    struct profile *profile = new_profile(&host, 2);
    for (int i = 0; i < 2; i++) {
        /* The profile's time is between that of the pass alone and that with its own calls, however long this
           thread waits between two of these lines. */
        double outer = clock_seconds();
        profile_begin(profile);
        double inner = clock_seconds();
        pool_run(profile->pool, work, profile, 6);
        double end = clock_seconds();
        profile_lap(profile, PROFILE_HEAD);
        double passed = clock_seconds() - outer;
        assert_true(total(profile->wall) >= end - inner - 1e-9 && total(profile->wall) <= passed + 1e-9);
        /* A busy machine stretches both; each lap is at least the time spun. */
        assert_true(profile->wall[PROFILE_NORM] > 0 && profile->wall[PROFILE_PRODUCTS] > 0);
        assert_true(total(profile->thread) >= 6 * 0.012 - 1e-6);
        assert_true(total(profile->thread) <= 2 * passed + 1e-9);
        check_near(profile->wall[PROFILE_HEAD], 0, 0, "nothing is left for the fallback");
        profile_lap(profile, PROFILE_HEAD);
        assert_true(profile->wall[PROFILE_HEAD] <= clock_seconds() - end); /* the time since the last lap */
        assert_true(profile->wall[PROFILE_HEAD] > 0);                      /* the watches were cleared */
        profile_clear(profile);
    }
    drop(&host, profile);
}

/* A part with two laps in one pass gets both times. */
static void laps_of_a_part_add_up(void **state)
{
    (void)state;
    struct host host;
    struct profile *profile = new_profile(&host, 1);
    double start = clock_seconds();
    profile_begin(profile);
    struct watch *watch = profile_watch(profile, 0);
    spin(0.004);
    watch_lap(watch, PROFILE_NORM);
    double first = watch->seconds[PROFILE_NORM];
    assert_true(first >= 0.004);
    spin(0.001);
    watch_lap(watch, PROFILE_PRODUCTS);
    watch_lap(watch, PROFILE_NORM); /* nothing was done since the last lap */
    assert_true(watch->seconds[PROFILE_NORM] >= first);
    spin(0.001);
    watch_lap(watch, PROFILE_NORM);
    assert_true(watch->seconds[PROFILE_NORM] >= first + 0.001);
    assert_true(watch->seconds[PROFILE_NORM] + watch->seconds[PROFILE_PRODUCTS] <= clock_seconds() - start);
    profile_lap(profile, PROFILE_HEAD);
    assert_true(profile->wall[PROFILE_NORM] >= 0.005 && profile->wall[PROFILE_PRODUCTS] >= 0.001);
    for (int i = 0; i < 2; i++) { /* and so do passes */
        double before = profile->wall[PROFILE_DATA];
        spin(0.002);
        profile_lap(profile, PROFILE_DATA);
        assert_true(profile->wall[PROFILE_DATA] >= before + 0.002);
        assert_true(profile->thread[PROFILE_DATA] >= before + 0.002);
    }
    drop(&host, profile);
}

/* On a clock that advances by a tick at each reading. */
static void laps_are_exact(void **state)
{
    (void)state;
    const double tick = 0.125;
    struct host host;
    struct profile *profile = new_profile(&host, 1);
    fake_clock_tick = tick;
    profile->watches[0].seconds[PROFILE_GELU] = 5; /* begin clears it */
    profile_begin(profile);
    profile_lap(profile, PROFILE_DATA);
    profile_lap(profile, PROFILE_NORM);
    profile_lap(profile, PROFILE_DATA);
    check_near(profile->wall[PROFILE_DATA], 2 * tick, 0, "two laps");
    check_near(profile->wall[PROFILE_NORM], tick, 0, "one lap");
    check_near(total(profile->wall), 3 * tick, 0, "nothing else");
    struct watch *watch = profile_watch(profile, 0);
    watch_lap(watch, PROFILE_GELU);
    watch_lap(watch, PROFILE_NORM);
    watch_lap(watch, PROFILE_GELU);
    watch_lap(watch, PROFILE_GELU);
    check_near(watch->seconds[PROFILE_GELU], 3 * tick, 0, "laps of the watch");
    profile_lap(profile, PROFILE_HEAD); /* six readings since the last lap: 3 to 1 for GELU */
    check_near(profile->wall[PROFILE_GELU], 6 * tick * 3 / 4, 0, "three laps of four");
    check_near(profile->wall[PROFILE_NORM], tick + 6 * tick / 4, 0, "one lap of four");
    check_near(profile->wall[PROFILE_HEAD], 0, 0, "no time is left");
    profile_lap(profile, PROFILE_HEAD);
    check_near(profile->wall[PROFILE_HEAD], tick, 0, "the watch is cleared");
    for (int i = 0; i < PROFILE_PARTS; i++)
        check_near(profile->thread[i], profile->wall[i], 0, "one thread is always busy");
    fake_clock_tick = 0;
    drop(&host, profile);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    for (long fail = 0; fail <= 2; fail++) {
        struct failing_host failing;
        struct profile *profile;
        failing_host_init(&failing, fail);
        check_status(&failing.host, profile_new(&failing.host, NULL, &profile),
                     fail < 2 ? HASHATTN_NO_MEMORY : HASHATTN_OK, "profile");
        assert_true((profile != NULL) == (fail == 2));
        profile_free(&failing.host, profile);
        assert_int_equal(failing.outstanding, 0);
    }
}

static void no_profile_is_no_work(void **state)
{
    (void)state;
    profile_begin(NULL);
    profile_lap(NULL, PROFILE_DATA);
    assert_null(profile_watch(NULL, 3));
    watch_lap(NULL, PROFILE_NORM);
    struct host host;
    host_init(&host);
    profile_free(&host, NULL);
}

static void every_part_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < PROFILE_PARTS; i++) {
        assert_non_null(profile_names[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(profile_names[i], profile_names[j]);
    }
    assert_null(profile_names[PROFILE_PARTS]);
    assert_string_equal(profile_names[PROFILE_ATTENTION_BACKWARD], "attention backward");
    assert_string_equal(profile_names[PROFILE_SAVING], "saving");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_goes_to_the_part_that_laps),
        cmocka_unit_test(a_pass_is_shared_out_by_what_workers_lapped),
        cmocka_unit_test(laps_of_a_part_add_up),
        cmocka_unit_test(laps_are_exact),
        cmocka_unit_test(failing_allocations_are_survived),
        cmocka_unit_test(no_profile_is_no_work),
        cmocka_unit_test(every_part_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
