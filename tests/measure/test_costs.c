/* Medians, and the costs of a layer, a step and the machine as this floor measures them;
   tests/api/test_measure.c and test_peak.c test the public calls. Times are not judged.
   Planted and caught: the upper of two middle values as the median; a layer with the mechanism of another
   layer of the model; a layer with dropout in evaluation; an error that leaks blocks; a profile that includes
   the step that warms up.
   Covers: median.c layer_cost.c step_cost.c peak.c
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "measure/layer_cost.h"
#include "measure/median.h"
#include "measure/peak.h"
#include "measure/step_cost.h"
#include "support/check.h"
#include "support/small_run.h"

static void medians_are_in_the_middle(void **state)
{
    (void)state;
    double odd[] = {5, 1, 9}, even[] = {4, 1, 2, 9}, one[] = {7};
    check_near(median(odd, 3), 5, 0, "of three");
    check_near(median(even, 4), 3, 0, "of four");
    check_near(median(one, 1), 7, 0, "of one");
}

static void costs_are_those_of_the_shape(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    small_run_init(&small, "softmax", 32, 4);
    check_status(&small.host, pool_new(&small.host, 2, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    const struct model_config *model = &small.config.model;
    struct layer_cost forward, both;
    check_status(&small.host, layer_cost(&small.host, &setup, model, 500, 1, false, 3, &forward), HASHATTN_OK,
                 NULL);
    check_status(&small.host, layer_cost(&small.host, &setup, model, 500, 1, true, 3, &both), HASHATTN_OK,
                 NULL);
    assert_true(isnan(forward.backward_ms) && both.backward_ms > 0 && forward.forward_ms > 0);
    assert_true(forward.repeats == 3 && forward.saved_bytes == both.saved_bytes);
    assert_true(both.workspace_bytes > forward.workspace_bytes);
    check_near(forward.product_operations, 500 * 2.0 * (4 * 16 * 16 + 2 * 16 * 24), 0, "operations");
    struct step_cost step;
    check_status(&small.host, step_cost(&small.host, &setup, &small.config, 4, &step), HASHATTN_OK, NULL);
    assert_true(step.steps == 4 && step.sequences == 20 && step.tokens == 20 * 32 && step.longest == 32);
    assert_true(step.loss > 0 && step.step_ms > 0 && step.workspace_bytes > 0);
    struct model_config odd = *model;
    odd.heads = 3;
    check_status(&small.host, layer_cost(&small.host, &setup, &odd, 500, 1, true, 3, &both), HASHATTN_INVALID,
                 "not a multiple of heads");
    struct peak peak;
    check_status(&small.host, peak_measure(&small.host, setup.kernels, pool, 0.01, &peak), HASHATTN_OK, NULL);
    assert_true(peak.float32_gflops > 0 && peak.hash_gflops > 0 && peak.memory_gbytes_per_s > 0);
    pool_free(&small.host, pool);
    small_run_free(&small);
}

/* The profile has the measured steps, without the first one, which is not measured. */
static void the_profile_is_of_the_measured_steps(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    struct profile *profile;
    struct step_cost step;
    small_run_init(&small, "softmax", 32, 4);
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    check_status(&small.host, profile_new(&small.host, pool, &profile), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool, .profile = profile};
    check_status(&small.host, step_cost(&small.host, &setup, &small.config, 1, &step), HASHATTN_OK, NULL);
    double seconds = 0;
    for (int part = 0; part < PROFILE_PARTS; part++)
        seconds += profile->wall[part];
    assert_true(seconds > 0 && seconds <= 1.001e-3 * step.step_ms);
    profile_free(&small.host, profile);
    pool_free(&small.host, pool);
    small_run_free(&small);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    small_run_init(&small, "softmax", 16, 4);
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long fail = 0; status != HASHATTN_OK; fail++) {
        struct failing_host failing;
        struct layer_cost cost;
        failing_host_init(&failing, fail);
        status = layer_cost(&failing.host, &setup, &small.config.model, 20, 1, true, 3, &cost);
        assert_true(status == HASHATTN_OK ? fail > 5 : status == HASHATTN_NO_MEMORY);
        assert_int_equal(failing.outstanding, 0);
    }
    pool_free(&small.host, pool);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_in_the_middle),
        cmocka_unit_test(costs_are_those_of_the_shape),
        cmocka_unit_test(the_profile_is_of_the_measured_steps),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
