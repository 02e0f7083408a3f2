/* A forward pass has the same bits in training, where tiles have one height, and in evaluation, where the
   height depends on the threads, and these share the columns of a batch of few rows. The model is wide enough
   for packed weights of float32. Bugs planted and caught: the last of several tiles left out; every
   thread computing the first columns.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "models/model.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { DIM = 272, WIDE = 300, CLASSES = 3, VOCAB = 9, MOST_ROWS = 650, SEQUENCES = 3 };

static double run(struct layer_test *base, struct model *model, const struct model_batch *batch,
                  float *outputs)
{
    struct test_pass pass = {.plan = NULL};
    test_pass_open(&pass, &base->host, model, batch, layer_test_pack(base, batch->training));
    double loss = model_forward(pass.pass);
    model_predict(pass.pass, outputs);
    test_pass_close(&pass);
    return loss;
}

/* want: the outputs on one thread, or what receives them. */
static void check_batch(enum precision precision, int threads, const size_t offsets[SEQUENCES + 1],
                        float want[SEQUENCES * CLASSES])
{
    static unsigned char options[4096];
    const struct mechanism *mechanism = attention_find("softmax");
    options_preset(mechanism->options, options);
    const struct model_config config = {
        .vocab_size = VOCAB,
        .num_objectives = 1,
        .objectives = {{.objective = objective_find("classify"), .weight = 1, .num_outputs = CLASSES}},
        .max_len = MOST_ROWS,
        .layers = 2,
        .dim = DIM,
        .heads = 2,
        .attention_biases = 1,
        .decoder_layers = 1,
        .div_value = 4,
        .norm_epsilon = 1e-5,
        .ffn = WIDE,
        .precision = precision,
        .plan = single_plan(mechanism, options)};
    struct layer_test base;
    struct model *model;
    layer_test_open(&base, threads);
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_OK, NULL);
    check_status(&base.host, model_fit(&base.host, model, MOST_ROWS), HASHATTN_OK, NULL);
    base.params = *model_params(model);
    layer_test_start(&base, 5);
    uint32_t tokens[MOST_ROWS];
    static const uint32_t labels[SEQUENCES] = {1, 0, 2};
    static const uint64_t samples[SEQUENCES] = {7, 8, 9};
    for (size_t r = 0; r < MOST_ROWS; r++)
        tokens[r] = (uint32_t)(r * r % VOCAB);
    const struct targets targets = {.ids = labels};
    struct model_batch batch = {.kernels = base.kernels,
                                .pool = base.pool,
                                .num_sequences = SEQUENCES,
                                .offsets = offsets,
                                .input = {.ids = tokens},
                                .targets = &targets,
                                .sample_ids = samples,
                                .random_key = 77,
                                .training = true};
    float trained[SEQUENCES * CLASSES], evaluated[SEQUENCES * CLASSES];
    double loss = run(&base, model, &batch, trained);
    batch.training = false;
    double again = run(&base, model, &batch, evaluated);
    check_same_bits(&loss, &again, sizeof loss, "loss");
    check_same_bits(trained, evaluated, sizeof trained, "outputs");
    if (threads == 1)
        memcpy(want, trained, sizeof trained);
    check_same_bits(want, trained, sizeof trained, "outputs on one thread");
    memset(&base.params, 0, sizeof base.params); /* the model's */
    model_free(&base.host, model);
    layer_test_close(&base);
}

static void evaluation_has_the_bits_of_training(void **state)
{
    (void)state;
    static const size_t few[] = {0, 20, 27, 32}, many[] = {0, 200, 201, MOST_ROWS};
    for (int precision = PRECISION_FLOAT32; precision <= PRECISION_BF16; precision++)
        for (int batch = 0; batch < 2; batch++) {
            float want[SEQUENCES * CLASSES];
            for (int threads = 1; threads <= 5; threads += 2)
                check_batch((enum precision)precision, threads, batch == 0 ? few : many, want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(evaluation_has_the_bits_of_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
