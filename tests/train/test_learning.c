/* Learning works: `yoso` learns needle, where the answer is in 8 of 256 tokens and is read at the first, in
   float32 and in bf16, and `none`, which cannot see those tokens, stays at chance. The ordinary run uses one
   seed; with HASHATTN_LONG_TESTS in the environment all three are used. `none` needs no thousand steps to
   show that it does not learn: the first token is the same in every example, so without attention the answer
   is the same for any parameters, and the accuracy is the share of one class. Bugs planted and caught:
   attention without its gradient (75 % after 1,000 steps); a step up the slope; an example whose first token
   depends on the answer (`none` is not constant any more).
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "models/model_io.h"
#include "support/check.h"
#include "support/evaluate_once.h"
#include "support/named_metric.h"
#include "support/small_run.h"

enum { FRESH = 2000, CLASSES = 16 };
#define STEPS "1000"

static bool until_learned(void *user, const struct train_event *event)
{
    *(int64_t *)user = event->step;
    return metric_named(event->model, event->valid, "accuracy") >= 0.995; /* false for NaN */
}

/* Needle with 8 marks in 256 tokens and the preset of the task; `yoso` with 32 hashes of 8 bits. */
static void prepare(struct small_run *small, const char *mechanism, int64_t seed)
{
    small_run_init(small, mechanism, 256, 8);
    const struct task_preset *preset = &small->config.task->preset;
    static const size_t counts[SPLIT_COUNT] = {16000, 500, FRESH};
    small_run_generate(small, counts, (uint64_t)seed);
    struct model_config *model = &small->config.model;
    train_options_preset(preset, &small->config.training);
    check_status(&small->host, train_options_set(&small->host, &small->config.training, "steps", STEPS),
                 HASHATTN_OK, NULL);
    small->config.training.eval_every = 50;
    small->config.training.save_every = small->config.training.steps;
    small->config.training.seed = seed;
    model->layers = (int64_t)preset->layers;
    model->dim = (int64_t)preset->dim;
    model->heads = (int64_t)preset->heads;
    model->ffn = (int64_t)preset->ffn;
    model->dropout = 0;
}

/* Accuracy of the saved model on new sequences. */
static double test_run(struct small_run *small, struct train_setup setup, float *probabilities)
{
    struct host *host = &small->host;
    struct model *model;
    struct dataset fresh;
    struct evaluation found;
    void *values;
    char path[160];
    setup.callback = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", small->run);
    small_run_load(small, SPLIT_TEST, &fresh);
    check_status(host, model_new(host, &small->config.model, &model), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    check_status(host, memory_new(host, params->total, sizeof(float), "values", &values), HASHATTN_OK, NULL);
    const struct model_block block = {"", values, NULL};
    check_status(host, model_load(host, path, params, &block, 1), HASHATTN_OK, NULL);
    check_status(host,
                 evaluate_once(host, &setup, model, values, &fresh, 32, (uint64_t)small->config.training.seed,
                               probabilities, &found),
                 HASHATTN_OK, NULL);
    assert_int_equal(found.examples, FRESH);
    double accuracy = metric_named(model, found.metrics, "accuracy");
    memory_free(host, values);
    model_free(host, model);
    dataset_free(host, &fresh);
    return accuracy;
}

static void yoso_learns(int64_t seed, const char *precision)
{
    const char *why;
    int64_t steps = 0;
    struct small_run small;
    prepare(&small, "yoso", seed);
    small_run_set(&small, "precision", precision);
    small_run_set(&small, "num_hashes", "32");
    small_run_set(&small, "hash_bits", "8");
    struct train_setup setup = {
        .kernels = kernels_named("auto", &why), .callback = until_learned, .user = &steps};
    check_status(&small.host, pool_new(&small.host, 2, &setup.pool), HASHATTN_OK, NULL);
    double start = clock_seconds();
    hashattn_status status = train_run(&small.host, &setup, &small.config, small.run);
    if (status != HASHATTN_INTERRUPTED) /* stopped because it has learned */
        check_status(&small.host, status, HASHATTN_OK, NULL);
    double seconds = clock_seconds() - start;
    double accuracy = test_run(&small, setup, NULL);
    print_message("seed %lld, %s: %.2f %% of %zu fresh sequences after %lld steps, %.0f s, %s\n",
                  (long long)seed, precision, 100 * accuracy, (size_t)FRESH, (long long)steps, seconds,
                  setup.kernels->name);
    assert_true(accuracy >= 0.98 && steps <= small.config.training.steps);
    pool_free(&small.host, setup.pool);
    small_run_free(&small);
}

static void yoso_learns_needle(void **state)
{
    (void)state;
    yoso_learns(1, "float32");
}

static void yoso_learns_needle_in_bf16(void **state)
{
    (void)state;
    yoso_learns(1, "bf16");
}

static void yoso_learns_needle_with_other_seeds(void **state)
{
    (void)state;
    if (getenv("HASHATTN_LONG_TESTS") == NULL)
        skip();
    yoso_learns(2, "float32");
    yoso_learns(3, "float32");
    yoso_learns(2, "bf16");
    yoso_learns(3, "bf16");
}

static void none_stays_at_chance(void **state)
{
    (void)state;
    const char *why;
    struct small_run small;
    prepare(&small, "none", 1);
    check_status(&small.host, train_options_set(&small.host, &small.config.training, "steps", "50"),
                 HASHATTN_OK, NULL);
    struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    check_status(&small.host, pool_new(&small.host, 2, &setup.pool), HASHATTN_OK, NULL);
    check_status(&small.host, train_run(&small.host, &setup, &small.config, small.run), HASHATTN_OK, NULL);
    float *probabilities = calloc((size_t)FRESH * CLASSES, sizeof *probabilities);
    assert_non_null(probabilities);
    double accuracy = test_run(&small, setup, probabilities);
    for (size_t i = 1; i < FRESH; i++)
        check_same_bits(probabilities, probabilities + i * CLASSES, CLASSES * sizeof *probabilities,
                        "probabilities of another example");
    /* A class has 1 in 16 of 2,000: five standard deviations are 2.7 %. */
    check_near(accuracy, 1.0 / CLASSES, 5 * sqrt(15.0 / 256 / FRESH), "accuracy of none");
    free(probabilities);
    pool_free(&small.host, setup.pool);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yoso_learns_needle),
        cmocka_unit_test(yoso_learns_needle_in_bf16),
        cmocka_unit_test(yoso_learns_needle_with_other_seeds),
        cmocka_unit_test(none_stays_at_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
