/* Models without a trunk: the objective's parameters only, its predictions on the rows of the batch, losses
   and gradients, and what cannot be combined.
   Bugs planted and caught: the rows of an empty trunk given to the objective; the width of the trunk taken
   for that of the rows; a trunk described nevertheless; a bare objective beside one with a trunk; ranks that
   share its sequences.
   Covers: model.c
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/test_pass.h"

enum { VALUES = 30, OUTPUTS = 2, EXAMPLES = 3 };

static struct model_config config_of(const char *objective)
{
    struct model_config config;
    memset(&config, 0, sizeof config);
    options_preset(model_options, &config);
    config.row_width = VALUES;
    config.max_len = 1;
    config.num_objectives = 1;
    config.objectives[0] =
        (struct model_objective){.objective = objective_find(objective), .weight = 1, .num_outputs = OUTPUTS};
    return config;
}

static void a_linear_forecast_is_the_whole_model(void **state)
{
    (void)state;
    struct layer_test base;
    layer_test_open(&base, 1);
    struct model_config config = config_of("dlinear");
    struct model *model;
    check_status(&base.host, head_plan_new(&base.host, "softmax", &config.plan), HASHATTN_OK, NULL);
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_OK, NULL);
    check_status(&base.host, model_fit(&base.host, model, 1), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    assert_int_equal(params_count(params), 2 * (VALUES + 1) * OUTPUTS);
    assert_int_equal(model_trunk_floats(model), 0);
    float *values = new_zeros(params->total), *gradients = new_zeros(params->total);
    float *block = new_zeros(params_packed_floats(params) + 1), *x = new_zeros((size_t)ROW_TILE * VALUES);
    float wanted[EXAMPLES * OUTPUTS] = {0}, got[EXAMPLES * OUTPUTS];
    const struct param *weight = param_named(params, "dlinear.rest.weight"),
                       *bias = param_named(params, "dlinear.trend.bias");
    values[weight->offset + VALUES + 12] = 25; /* output 1 reads value 12 of the rest */
    values[bias->offset] = 0.5f;
    for (size_t i = 0; i < EXAMPLES; i++)
        x[i * VALUES + 12] = (float)(i + 1); /* alone: its average is 1/25, and the rest 24/25 */
    const size_t offsets[] = {0, 1, 2, 3};
    const struct targets targets = {.floats = wanted};
    const struct model_batch batch = {.kernels = base.kernels,
                                      .pool = base.pool,
                                      .num_sequences = EXAMPLES,
                                      .offsets = offsets,
                                      .input = {.floats = x},
                                      .targets = &targets,
                                      .training = true};
    check_status(&base.host, test_pass_plan(&base.host, model, &batch), HASHATTN_OK, NULL);
    struct comm two = {.peer = {.size = 2}};
    struct row_ranks ranks = {.comm = &two};
    const struct rows_cut cut = {.ranks = &ranks};
    struct model_batch shared = batch;
    shared.cut = &cut;
    check_status(
        &base.host, test_pass_plan(&base.host, model, &shared), HASHATTN_REFUSED,
        "the objective dlinear reads the rows of a sequence together: sequence_parallel must be 1, not 2");
    assert_int_equal(test_pass_saved(&base.host, model, &batch), 0);
    const float *packed = params_pack(params, base.kernels, base.pool, values, true, block);
    struct test_pass pass = {.plan = NULL};
    test_pass_open(&pass, &base.host, model, &batch, packed);
    double loss = model_forward(pass.pass), want = 0;
    model_predict(pass.pass, got);
    for (size_t i = 0; i < EXAMPLES; i++) {
        check_near((double)got[i * OUTPUTS], 0.5, 1e-6, "the bias");
        check_near((double)got[i * OUTPUTS + 1], 24.0 * (double)(i + 1), 1e-4, "a forecast");
        want += (0.25 + 576.0 * (double)((i + 1) * (i + 1))) / OUTPUTS / EXAMPLES;
    }
    check_near(loss, want, 1e-5 * want, "loss");
    model_backward(pass.pass, gradients, NULL);
    check_near((double)gradients[bias->offset], 0.5, 1e-6, "gradient of the bias");
    free(values), free(gradients), free(block), free(x);
    test_pass_close(&pass);
    model_free(&base.host, model);
    head_plan_free(&base.host, &config.plan);
    layer_test_close(&base);
}

static void what_cannot_be_combined_is_refused(void **state)
{
    (void)state;
    struct layer_test base;
    layer_test_open(&base, 1);
    struct model_config config = config_of("naive");
    struct model *model;
    check_status(&base.host, head_plan_new(&base.host, "softmax", &config.plan), HASHATTN_OK, NULL);
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_OK, NULL);
    assert_int_equal(params_count(model_params(model)), 0);
    model_free(&base.host, model);
    config.num_objectives = 2;
    config.objectives[1] =
        (struct model_objective){.objective = objective_find("regress"), .weight = 1, .num_outputs = 1};
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_INVALID,
                 "1 of 2 objectives read the input without a trunk");
    config.num_objectives = 1;
    config.row_width = 0;
    config.vocab_size = 9;
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_INVALID,
                 "naive reads rows of floats");
    head_plan_free(&base.host, &config.plan);
    layer_test_close(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_linear_forecast_is_the_whole_model),
        cmocka_unit_test(what_cannot_be_combined_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
