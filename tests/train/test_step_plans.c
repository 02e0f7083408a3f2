/* A training step makes one plan of attention for each different group of heads, whatever the number of
   layers. Planted and caught: a plan for each list of heads, although two are alike; the batch planned again
   for the backward pass.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "models/model.h"
#include "support/check.h"
#include "support/small_run.h"
#include "train/step.h"

extern size_t sizes_counted[2]; /* step_plans_mechanisms.c */

enum { BATCH = 4 };

/* One step; returns the plans that it made. */
static size_t plans_of_step(const char *plan, const char *layers)
{
    struct small_run small;
    struct stepper stepper;
    struct pool *pool;
    struct step_outcome outcome;
    double sums[MODEL_SUMS] = {0};
    small_run_init(&small, "first", 16, 4);
    struct head_plan used;
    check_status(&small.host, head_plan_new(&small.host, plan, &used), HASHATTN_OK, NULL);
    head_plan_free(&small.host, &small.config.model.plan);
    small.config.model.plan = used;
    small_run_set(&small, "layers", layers);
    small_run_set(&small, "batch", "4");
    static const size_t counts[SPLIT_COUNT] = {40, 12, 7};
    small_run_generate(&small, counts, 3);
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    const struct train_setup setup = {.kernels = kernels_all()[0], .pool = pool};
    check_status(&small.host, stepper_open(&small.host, &setup, &small.config, &stepper), HASHATTN_OK, NULL);
    params_start(stepper.params, 1, stepper.values);
    memset(sizes_counted, 0, sizeof sizes_counted);
    check_status(&small.host, stepper_run(&stepper, 0, sums, &outcome), HASHATTN_OK, NULL);
    assert_int_equal((sizes_counted[0] + sizes_counted[1]) % BATCH, 0);
    size_t plans = (sizes_counted[0] + sizes_counted[1]) / BATCH;
    assert_int_equal(model_num_plans(stepper.session.space.made), plans);
    stepper_close(&stepper);
    pool_free(&small.host, pool);
    small_run_free(&small);
    return plans;
}

static void layers_share_the_plan_of_their_group(void **state)
{
    (void)state;
    static const char *const layers[] = {"2", "4", "12"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(plans_of_step("first", layers[i]), 1);
        assert_int_equal(plans_of_step("first*1,second*1", layers[i]), 2);
        assert_int_equal(plans_of_step("first/second", layers[i]), 2);
        if (i > 0)
            assert_int_equal(plans_of_step("first/second/first", layers[i]), 2);
        /* Three groups: all heads of the first; its first head; the second head of the other. */
        assert_int_equal(plans_of_step("first/first*1,second*1", layers[i]), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_share_the_plan_of_their_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
