/* Which part of the profile each piece of a step is charged to. On a clock that advances by one tick at each
   reading, a lap that is missing or charged to another part changes a number. For instance, the first tile of
   a forward reads the clock six times (begin, four laps, the end of the pass), and embedding is one lap of
   the four: 1.5 ticks.
   Planted and caught: dropout of the input not lapped.
   Covers: trunk.c model.c
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "support/check.h"
#include "support/fake_clock.h"
#include "support/layers.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { VOCAB = 9, TOKENS = 12 };

static void check_parts(int norm, bool training, const double want[PROFILE_PARTS])
{
    struct host host;
    struct pool *pool;
    struct profile *profile;
    struct model *model;
    const struct model_config config = {
        .vocab_size = VOCAB,
        .max_len = TOKENS,
        .num_objectives = 1,
        .objectives = {{.objective = objective_find("classify"), .weight = 1, .num_outputs = 3}},
        .layers = 2,
        .dim = 8,
        .attention_biases = 1,
        .decoder_layers = 1,
        .div_value = 4,
        .norm_epsilon = 1e-5,
        .heads = 2,
        .ffn = 12,
        .conv_window = 3,
        .dropout = 0.2,
        .norm = norm,
        .plan = single_plan(attention_find("softmax"), NULL),
    };
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    check_status(&host, profile_new(&host, pool, &profile), HASHATTN_OK, NULL);
    check_status(&host, model_new(&host, &config, &model), HASHATTN_OK, NULL);
    check_status(&host, model_fit(&host, model, TOKENS), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    const size_t offsets[] = {0, 3, TOKENS};
    const uint32_t tokens[TOKENS] = {0, 1, 2, 3, 4}, labels[2] = {2, 1};
    const uint64_t samples[2] = {4, 5};
    const struct targets targets = {.ids = labels};
    const struct model_batch batch = {
        .kernels = kernels_all()[0],
        .pool = pool,
        .num_sequences = 2,
        .offsets = offsets,
        .input = {.ids = tokens},
        .targets = &targets,
        .sample_ids = samples,
        .training = training,
        .profile = profile,
    };
    float *values = new_zeros(params->total), *block = new_zeros(params_packed_floats(params) + 1),
          *gradients = new_zeros(params->total);
    params_start(params, 3, values);
    const float *packed = params_pack(params, batch.kernels, NULL, values, true, block);
    struct test_pass pass = {.plan = NULL};
    test_pass_open(&pass, &host, model, &batch, packed);
    fake_clock_tick = 0.125;
    profile_begin(profile);
    model_forward(pass.pass);
    if (training)
        model_backward(pass.pass, gradients, NULL);
    fake_clock_tick = 0;
    for (int part = 0; part < PROFILE_PARTS; part++)
        check_near(profile->wall[part] / 0.125, want[part], 1e-9, profile_names[part]);
    test_pass_close(&pass);
    free(values), free(block), free(gradients);
    model_free(&host, model);
    profile_free(&host, profile);
    pool_free(&host, pool);
}

/* Pre-LN and post-LN; evaluation and training. */
static void each_lap_is_charged_to_its_part(void **state)
{
    (void)state;
    static const double want[2][2][PROFILE_PARTS] = {
        {{0, 1.5, 6.34444444444, 0, 9.96666666667, 2, 0, 2, 2.42222222222, 8.76666666667, 1, 0, 0, 0, 0},
         {0, 3.83333333333, 17.0825396825, 0, 19.3714285714, 2, 2, 4, 7.04126984127, 14.719047619, 2,
          8.95238095238, 0, 0, 0}},
        {{0, 1.5, 6.34444444444, 0, 9.96666666667, 2, 0, 2, 2.42222222222, 8.76666666667, 1, 0, 0, 0, 0},
         {0, 5.07142857143, 16.9873015873, 0, 19.3238095238, 2, 2, 4, 7.04126984127, 14.6714285714, 2,
          8.90476190476, 0, 0, 0}}};
    for (int norm = 0; norm < 2; norm++)
        for (int training = 0; training < 2; training++)
            check_parts(norm, training, want[norm][training]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lap_is_charged_to_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
