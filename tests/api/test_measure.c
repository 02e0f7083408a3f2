/* Profiles and the measurements of a layer and a step through the public header. Tests that times exist,
   whatever they are, that counts and bytes are those requested, and every error. Planted and caught: a
   forward that is not timed; a profile that does not restart; the context's profile not passed to a training;
   tokens of the last step only; blocks not freed.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "support/tiny_run.h"

/* Seconds of a part; NAN if there is no part of that name. */
static double seconds_of(const hashattn_context *context, const char *name)
{
    hashattn_profile_part part = {.struct_size = sizeof part};
    for (size_t i = 0; hashattn_profile_get(context, i, &part); i++)
        if (strcmp(part.name, name) == 0) {
            assert_true(part.wall_seconds >= 0 && part.thread_seconds <= 2 * part.wall_seconds + 1e-2);
            return part.wall_seconds;
        }
    return NAN;
}

static void a_layer_is_measured(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_setup *setup = tiny_setup(context, "yoso", 6);
    hashattn_layer_cost forward = {.struct_size = sizeof forward}, both = forward;
    assert_true(isnan(seconds_of(context, "products"))); /* no profile was started */
    check_ok(context, hashattn_profile_start(context));
    check_ok(context, hashattn_measure_layer(setup, 400, 0, 4, &forward));
    assert_true(forward.forward_ms > 0 && isnan(forward.backward_ms) && forward.repeats == 4);
    assert_true(forward.lay_ms >= 0 && isfinite(forward.library_gflops) && forward.library_gflops >= 0);
    check_near(forward.product_operations, 400 * 2.0 * (4 * 8 * 8 + 2 * 8 * 8), 0, "operations");
    assert_true(seconds_of(context, "products") > 0 && seconds_of(context, "attention") > 0);
    check_near(seconds_of(context, "attention backward"), 0, 0, "no backward");
    check_ok(context, hashattn_measure_layer(setup, 400, 1, 0, &both));
    assert_true(both.forward_ms > 0 && both.backward_ms > 0);
    assert_true(both.repeats >= 3 && both.repeats <= 25 && both.struct_size == sizeof both);
    assert_true(both.saved_bytes == forward.saved_bytes && both.workspace_bytes > forward.workspace_bytes);
    assert_true(seconds_of(context, "attention backward") > 0 && seconds_of(context, "gelu") > 0);
    check_ok(context, hashattn_profile_start(context));
    check_near(seconds_of(context, "gelu"), 0, 0, "begun anew");
    hashattn_profile_stop(context);
    assert_true(isnan(seconds_of(context, "gelu")));
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void a_step_is_measured(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    tiny_data(context, "steps");
    hashattn_setup *setup = tiny_setup(context, "yoso", 6);
    hashattn_step_cost cost = {.struct_size = sizeof cost};
    check_ok(context, hashattn_setup_set(setup, "accumulate", "3"));
    check_ok(context, hashattn_profile_start(context));
    check_ok(context, hashattn_measure_step(setup, "steps", 5, &cost));
    assert_true(cost.step_ms > 0 && cost.tokens_per_second > 0 && cost.loss > 0 && cost.loss < 10);
    assert_int_equal(cost.steps, 5);
    assert_int_equal(cost.sequences, 5 * 3 * 4);
    assert_int_equal(cost.tokens, 5 * 3 * 4 * 8);
    assert_int_equal(cost.longest, 8);
    assert_true(cost.saved_bytes > 0 && cost.workspace_bytes > cost.saved_bytes);
    assert_true(seconds_of(context, "optimiser") > 0);
    check_near(seconds_of(context, "evaluation"), 0, 0, "no evaluation");
    check_ok(context, hashattn_train(setup, "steps", "profiled", NULL, NULL));
    assert_true(seconds_of(context, "evaluation") > 0 && seconds_of(context, "saving") > 0);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* The formulas of docs/guide/9-several-machines.md: sums by bucket, and a ring of rows that sends less and
   takes more time. */
static void exchanges_of_ranks_are_those_of_the_mechanism(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup = tiny_setup(context, "yoso", 6), *exact = tiny_setup(context, "softmax", 6);
    double bytes = 0, rows = 65536.0 / 4;
    size_t exchanges = 0;
    check_ok(context, hashattn_setup_set(setup, "dim", "128"));
    check_ok(context, hashattn_setup_set(setup, "heads", "2"));
    check_ok(context, hashattn_setup_set(setup, "num_hashes", "32"));
    check_ok(context, hashattn_setup_set(setup, "hash_bits", "5"));
    check_ok(context, hashattn_measure_exchange(setup, 65536, 4, &bytes, &exchanges));
    assert_true(bytes == 16.0 * 3 / 4 * 32 * 32 * 64 * 64 && exchanges == 4);
    check_ok(context, hashattn_setup_set(setup, "hash_bits", "9"));
    check_ok(context, hashattn_measure_exchange(setup, 65536, 4, &bytes, &exchanges));
    assert_true(bytes == 3 * rows * (8 * 64 + 2 * 32) + 4 * 4 * rows * 64 && exchanges == 7);
    check_ok(context, hashattn_setup_set(setup, "hash_bits", "5"));
    check_ok(context, hashattn_setup_set(setup, "gradient", "true")); /* each pair has its weight */
    check_ok(context, hashattn_measure_exchange(setup, 65536, 4, &bytes, &exchanges));
    assert_int_equal(exchanges, 7);
    check_call(context, hashattn_measure_exchange(exact, 64, 2, &bytes, &exchanges), HASHATTN_REFUSED,
               "softmax does not tell what ranks exchange");
    check_call(context, hashattn_measure_exchange(setup, 64, 1, &bytes, &exchanges), HASHATTN_INVALID,
               "ranks is 1, allowed are 2 to 65536");
    check_call(context, hashattn_measure_exchange(setup, 0, 2, &bytes, &exchanges), HASHATTN_INVALID,
               "seq_len is 0");
    check_call(context, hashattn_measure_exchange(setup, 64, 2, NULL, &exchanges), HASHATTN_INVALID,
               "bytes is NULL");
    assert_int_equal(hashattn_measure_exchange(NULL, 64, 2, &bytes, &exchanges), HASHATTN_INVALID);
    hashattn_setup_free(setup);
    hashattn_setup_free(exact);
    hashattn_context_free(context);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "checked");
    hashattn_setup *setup = tiny_setup(context, "softmax", 6);
    hashattn_layer_cost layer = {.struct_size = sizeof layer};
    hashattn_step_cost step = {.struct_size = sizeof step};
    check_call(context, hashattn_measure_layer(setup, 0, 0, 0, &layer), HASHATTN_INVALID, "seq_len is 0");
    check_call(context, hashattn_measure_layer(setup, ((size_t)1 << 31) + 1, 0, 0, &layer), HASHATTN_INVALID,
               "seq_len is 2147483649, allowed are 1 to 2147483648");
    check_ok(context, hashattn_measure_layer(setup, 1, 0, 1, &layer));
    check_call(context, hashattn_measure_layer(setup, 8, 0, 0, NULL), HASHATTN_INVALID, "cost is NULL");
    check_call(context, hashattn_measure_layer(setup, 8, 0, 1000001, &layer), HASHATTN_INVALID,
               "repeats is 1000001, allowed are 0 to 1000000");
    check_call(context, hashattn_measure_step(setup, NULL, 1, &step), HASHATTN_INVALID, "data is NULL");
    check_call(context, hashattn_measure_step(setup, "checked", 1, NULL), HASHATTN_INVALID, "cost is NULL");
    check_call(context, hashattn_measure_step(setup, "checked", 0, &step), HASHATTN_INVALID, "steps is 0");
    check_call(context, hashattn_measure_step(setup, "checked", 7, &step), HASHATTN_INVALID,
               "steps is 7, allowed are 1 to the 6");
    check_ok(context, hashattn_measure_step(setup, "checked", 6, &step));
    check_call(context, hashattn_measure_step(setup, "absent", 1, &step), HASHATTN_BAD_FILE,
               "cannot open absent");
    check_ok(context, hashattn_setup_set(setup, "dim", "9"));
    check_call(context, hashattn_measure_layer(setup, 8, 0, 1, &layer), HASHATTN_INVALID,
               "dim is 9, which is not a multiple of heads, 2");
    assert_int_equal(hashattn_measure_layer(NULL, 8, 0, 0, &layer), HASHATTN_INVALID);
    assert_int_equal(hashattn_measure_step(NULL, "checked", 1, &step), HASHATTN_INVALID);
    assert_int_equal(hashattn_profile_start(NULL), HASHATTN_INVALID);
    hashattn_profile_part part = {.struct_size = sizeof part};
    assert_int_equal(hashattn_profile_get(NULL, 0, &part), 0);
    assert_int_equal(hashattn_profile_get(context, 0, &part), 0); /* not started */
    check_ok(context, hashattn_profile_start(context));
    assert_int_equal(hashattn_profile_get(context, 0, &part), 1);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static hashattn_status measure_both(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_setup *setup = NULL;
    hashattn_layer_cost layer = {.struct_size = sizeof layer};
    hashattn_step_cost step = {.struct_size = sizeof step};
    hashattn_status status = hashattn_setup_new(context, "needle", &setup);
    if (status == HASHATTN_OK)
        status = hashattn_profile_start(context);
    if (status == HASHATTN_OK)
        status = hashattn_measure_layer(setup, 20, 1, 1, &layer);
    if (status == HASHATTN_OK)
        status = hashattn_measure_step(setup, "data", 1, &step);
    hashattn_profile_stop(context);
    hashattn_setup_free(setup);
    return status;
}

static void every_failing_allocation_is_named(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "data");
    hashattn_context_free(context);
    check_every_failing_allocation(measure_both, NULL);
}

int main(void)
{
    tiny_enter();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_measured),
        cmocka_unit_test(a_step_is_measured),
        cmocka_unit_test(exchanges_of_ranks_are_those_of_the_mechanism),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(every_failing_allocation_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_leave();
    return failed;
}
