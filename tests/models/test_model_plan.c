/* The plan of a model with a decoder: attention is planned once for the encoder's rows, once for the
   decoder's and once for cross attention, whatever the number of layers; an encoder that distils has a plan
   for each of its lengths; forward, backward and predictions plan nothing. Planted and caught: a plan for
   each block of the decoder; cross attention planned for the decoder's rows as keys; the batch planned again
   when its pass is opened.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "nn/distil.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { SEQUENCES = 3, WIDTH = 4, OUTPUTS = 6, LONGEST = 40, DECODED = 12, MOST_ROWS = 192 };

static size_t sizes_counted, key_rows;

/* Once for every sequence of a plan. */
static size_t count_sequences(const void *options, const struct problem_shape *shape)
{
    (void)options;
    sizes_counted++;
    key_rows += shape->num_keys;
    return attention_find("softmax")->host.saved_size(NULL, shape);
}

static struct model_config config_of(const struct mechanism *mechanism, int64_t layers, int64_t decoders,
                                     bool distil)
{
    struct model_config config;
    memset(&config, 0, sizeof config);
    options_preset(model_options, &config);
    config.plan = single_plan(mechanism, NULL);
    config.row_width = WIDTH;
    config.max_len = LONGEST;
    config.decoder_rows = DECODED;
    config.decoded_rows = 2;
    config.num_objectives = 1;
    config.objectives[0] =
        (struct model_objective){.objective = objective_find("decoded"), .weight = 1, .num_outputs = OUTPUTS};
    config.layers = layers;
    config.decoder_layers = decoders;
    config.distil = distil;
    config.dim = 8;
    config.heads = 2;
    config.ffn = 12;
    config.norm = 1;
    config.positions = POSITIONS_SINUSOIDAL;
    config.dropout = 0;
    return config;
}

/* Plans of a step of training with this model. keys: rows that its attentions have as keys, for one plan of
   each kind. */
static size_t plans_of(int64_t layers, int64_t decoders, bool distil, size_t *keys)
{
    static const size_t offsets[] = {0, 20, 31, 71}, decoder_offsets[] = {0, 12, 24, 36};
    static const uint64_t samples[] = {3, 5, 9};
    size_t halved[16 * (SEQUENCES + 1)];
    struct mechanism counting = *attention_find("softmax");
    counting.host.saved_size = count_sequences;
    const struct model_config config = config_of(&counting, layers, decoders, distil);
    struct layer_test base;
    struct model *model;
    struct test_pass pass = {.plan = NULL};
    layer_test_open(&base, 2);
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_OK, NULL);
    check_status(&base.host, model_fit(&base.host, model, LONGEST), HASHATTN_OK, NULL);
    base.params = *model_params(model);
    layer_test_start(&base, 5);
    float *floats = new_zeros(MOST_ROWS * WIDTH), targets[SEQUENCES * OUTPUTS] = {1, 2, 3},
          outputs[SEQUENCES * OUTPUTS];
    const struct targets batch_targets = {.floats = targets};
    const struct model_batch batch = {.kernels = base.kernels,
                                      .pool = base.pool,
                                      .num_sequences = SEQUENCES,
                                      .offsets = offsets,
                                      .input = {.floats = floats},
                                      .decoder_offsets = decoder_offsets,
                                      .decoder_floats = floats,
                                      .halved_offsets = halved,
                                      .targets = &batch_targets,
                                      .sample_ids = samples,
                                      .random_key = 7,
                                      .training = true};
    distil_offsets(SEQUENCES, offsets, halved);
    for (int64_t i = 1; i + 1 < layers; i++)
        distil_offsets(SEQUENCES, halved + (i - 1) * (SEQUENCES + 1), halved + i * (SEQUENCES + 1));
    sizes_counted = key_rows = 0;
    test_pass_open(&pass, &base.host, model, &batch, layer_test_pack(&base, true));
    model_forward(pass.pass);
    model_predict(pass.pass, outputs);
    model_backward(pass.pass, base.gradients, NULL);
    size_t plans = model_num_plans(pass.plan);
    assert_int_equal(sizes_counted, plans * SEQUENCES);
    *keys = key_rows;
    test_pass_close(&pass);
    memset(&base.params, 0, sizeof base.params); /* the model's */
    model_free(&base.host, model);
    layer_test_close(&base);
    free(floats);
    return plans;
}

static void a_decoder_has_the_plans_of_the_batch(void **state)
{
    (void)state;
    size_t keys;
    for (int64_t layers = 1; layers <= 4; layers++)
        for (int64_t decoders = 1; decoders <= 3; decoders++) {
            assert_int_equal(plans_of(layers, decoders, false, &keys), 3);
            assert_int_equal(keys, 71 + 36 + 71);
        }
}

static void a_length_has_a_plan(void **state)
{
    (void)state;
    size_t keys;
    for (int64_t layers = 2; layers <= 4; layers++)
        assert_int_equal(plans_of(layers, 2, true, &keys), layers + 2);
    plans_of(2, 1, true, &keys);
    assert_int_equal(keys, 71 + (10 + 6 + 20) + 36 + (10 + 6 + 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoder_has_the_plans_of_the_batch),
        cmocka_unit_test(a_length_has_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
