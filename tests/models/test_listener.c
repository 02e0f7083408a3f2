/* What a backward pass tells its listener (nn/rows.h), for every mechanism: gradients that it calls known do
   not change any more. With parameters that are not trained it ends early, and the others have the same
   gradients. Those of own losses have the same bits alone, when nothing else is computed. Bugs planted and
   caught: a stage told before its chunks are added; the parameters of mixing told before it; ticks on another
   thread than the caller's; a backward pass that ends one layer too early, or never; own losses without those
   of the first layer; a task's loss that reaches a parameter of an own loss.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "models/model.h"
#include "nn/block.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { LAYERS = 3, ROWS = 900, SEQUENCES = 3, MOST_CALLS = LAYERS + 2 };

struct ear {
    const float *gradients;
    size_t total, calls, firsts[MOST_CALLS], ticks;
    float *seen[MOST_CALLS]; /* of all gradients */
    pthread_t thread;
};

static void hear(void *argument, size_t first)
{
    struct ear *ear = argument;
    assert_true(ear->calls < MOST_CALLS && pthread_equal(ear->thread, pthread_self()));
    ear->firsts[ear->calls] = first;
    ear->seen[ear->calls] = malloc(ear->total * sizeof(float));
    memcpy(ear->seen[ear->calls++], ear->gradients, ear->total * sizeof(float));
}

static void tick(void *argument)
{
    struct ear *ear = argument;
    assert_true(pthread_equal(ear->thread, pthread_self()));
    ear->ticks++;
}

/* Backward without the parameters before an offset, and the gradients of all: from the offset on they are
   near each other (a stage may be summed in other chunks), and two layers before it nothing was computed. */
static void check_early_end(const struct model *model, struct model_pass *pass, struct model_batch *batch,
                            const float *all, const char *name)
{
    const struct params *params = model_params(model);
    float *some = malloc(params->total * sizeof *some);
    size_t layer = SIZE_MAX, starts[LAYERS + 2] = {0}, count = 1;
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        size_t here =
            strncmp(row->name, "encoder.layer.", 14) == 0 ? (size_t)(row->name[14] - '0') : SIZE_MAX;
        if (here != layer && here != SIZE_MAX)
            starts[count++] = row->offset;
        layer = here;
    }
    starts[count++] = model_trunk_floats(model);
    assert_int_equal(count, LAYERS + 2);
    for (size_t k = 1; k < count; k++) {
        double most = 0;
        memset(some, 0, params->total * sizeof *some);
        batch->first_trained = starts[k];
        model_forward(pass);
        model_backward(pass, some, NULL);
        for (size_t i = 0; i < params->total; i++)
            most = fmax(most, fabs((double)all[i]));
        for (size_t i = starts[k]; i < params->total; i++)
            check_near((double)some[i], (double)all[i], 1e-5 * most, name);
        for (size_t i = 0; i < starts[k - 1]; i++)
            assert_true(some[i] == 0);
    }
    batch->first_trained = 0;
    free(some);
}

/* Backward of own losses only: the gradients `all` of their parameters, bit for bit, and no others. */
static void check_own_losses(const struct model *model, struct model_pass *pass, struct model_batch *batch,
                             const float *all, const char *name)
{
    const struct params *params = model_params(model);
    float *own = calloc(params->total, sizeof *own), *none = calloc(params->total, sizeof *none);
    batch->own_losses_only = true;
    model_forward(pass);
    model_backward(pass, own, NULL);
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        const float *want = (row->of_own_loss ? all : none) + row->offset;
        check_same_bits(own + row->offset, want, row->count * sizeof(float), name);
    }
    batch->own_losses_only = false;
    free(own);
    free(none);
}

/* On one thread the caller computes every chunk, so it must hear ticks; on more it may get none. */
static void check_mechanism(const struct mechanism *mechanism, int norm, int threads)
{
    unsigned char options[4096];
    struct layer_test base;
    struct model *model;
    size_t offsets[] = {0, 200, 201, ROWS};
    uint32_t tokens[ROWS], labels[] = {0, 2, 1};
    uint64_t samples[] = {5, 6, 7};
    options_preset(mechanism->options, options);
    const struct model_config config = {
        .vocab_size = 9,
        .num_objectives = 1,
        .objectives = {{.objective = objective_find("classify"), .weight = 1, .num_outputs = 3}},
        .max_len = 700,
        .layers = LAYERS,
        .decoder_layers = 1,
        .div_value = 4,
        .dim = 16,
        .heads = 2,
        .attention_biases = 1,
        .norm_epsilon = 1e-5,
        .conv_window = 5,
        .dropout = 0.2,
        .norm = norm,
        .ffn = 20,
        .plan = single_plan(mechanism, options)};
    struct random random = random_open(3);
    for (size_t i = 0; i < ROWS; i++)
        tokens[i] = (uint32_t)random_below(&random, 9);
    layer_test_open(&base, threads);
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_OK, NULL);
    check_status(&base.host, model_fit(&base.host, model, 700), HASHATTN_OK, NULL);
    base.params = *model_params(model);
    layer_test_start(&base, 5);
    struct ear ear = {.gradients = base.gradients, .total = base.params.total, .thread = pthread_self()};
    const struct backward_listener listener = {hear, tick, &ear};
    const struct targets targets = {.ids = labels};
    struct model_batch batch = {.kernels = base.kernels,
                                .pool = base.pool,
                                .num_sequences = SEQUENCES,
                                .offsets = offsets,
                                .input = {.ids = tokens},
                                .targets = &targets,
                                .sample_ids = samples,
                                .random_key = 7,
                                .training = true};
    struct test_pass pass = {.plan = NULL};
    test_pass_open(&pass, &base.host, model, &batch, layer_test_pack(&base, true));
    model_forward(pass.pass);
    model_backward(pass.pass, base.gradients, &listener);
    assert_int_equal(ear.calls, MOST_CALLS);
    assert_int_equal(ear.firsts[0], model_trunk_floats(model));
    if (threads == 1)
        assert_true(ear.ticks > 0);
    for (size_t i = 0; i < ear.calls; i++) {
        size_t first = ear.firsts[i];
        assert_true(i == 0 || first < ear.firsts[i - 1]);
        check_same_bits(ear.seen[i] + first, base.gradients + first, (ear.total - first) * sizeof(float),
                        mechanism->name);
        free(ear.seen[i]);
    }
    check_early_end(model, pass.pass, &batch, base.gradients, mechanism->name);
    check_own_losses(model, pass.pass, &batch, base.gradients, mechanism->name);
    test_pass_close(&pass);
    memset(&base.params, 0, sizeof base.params); /* the model's */
    model_free(&base.host, model);
    layer_test_close(&base);
}

static void known_gradients_do_not_change(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        for (const struct mechanism *const *mechanism = attention_mechanisms(); *mechanism != NULL;
             mechanism++)
            if ((*mechanism)->host.backward != NULL)
                check_mechanism(*mechanism, BLOCK_PRE_NORM, threads);
        check_mechanism(attention_find("lha"), BLOCK_POST_NORM, threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_gradients_do_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
