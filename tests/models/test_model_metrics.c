/* Names, sums, metrics and baselines of a model with two objectives and two mechanisms with own losses.
   Planted and caught: the second own loss not counted; metrics of the second objective from the sums of the
   first; a baseline that is written backwards.
   Covers: model.c
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"
#include "support/linear_mechanism.h"
#include "support/named_metric.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { VOCAB = 5, CLASSES = 3, SEQUENCES = 3, TOKENS = 12 };

struct metrics_test {
    struct host host;
    struct mechanism second;
    unsigned char options[2][64];
    struct model_config config;
    struct model *model;
};

static void open_test(struct metrics_test *t)
{
    memset(t, 0, sizeof *t);
    host_init(&t->host);
    assert_true(linear_mechanism.options_size <= sizeof t->options[0]);
    t->second = linear_mechanism;
    t->second.name = "second";
    for (int i = 0; i < 2; i++)
        options_preset(linear_mechanism.options, t->options[i]);
    t->config = (struct model_config){
        .vocab_size = VOCAB,
        .max_len = 9,
        .causal = 1,
        .num_objectives = 2,
        .objectives = {{.objective = objective_find("classify"), .weight = 0.5, .num_outputs = CLASSES},
                       {.objective = objective_find("next_token"),
                        .weight = 1,
                        .num_outputs = VOCAB - 1,
                        .first_output = 1}},
        .layers = 1,
        .dim = 9,
        .attention_biases = 1,
        .decoder_layers = 1,
        .div_value = 4,
        .norm_epsilon = 1e-5,
        .heads = 3,
        .ffn = 8,
        .plan = single_plan(&linear_mechanism, t->options[0]),
    };
    struct head_plan *plan = &t->config.plan;
    plan->used[plan->num_used++] = (struct planned){&t->second, t->options[1]};
    plan->lists[0].num_groups = 2;
    plan->lists[0].groups[0].heads = 1;
    plan->lists[0].groups[1].used = 1;
    check_status(&t->host, model_new(&t->host, &t->config, &t->model), HASHATTN_OK, NULL);
    check_status(&t->host, model_fit(&t->host, t->model, 9), HASHATTN_OK, NULL);
}

static void names_and_values_are_those_of_the_objectives(void **state)
{
    (void)state;
    struct metrics_test t;
    open_test(&t);
    char own[2][METRIC_NAME], name[METRIC_NAME];
    for (int i = 0; i < 2; i++)
        snprintf(own[i], METRIC_NAME, "%s.own_loss", i == 0 ? linear_mechanism.name : "second");
    /* loss, correct, count of either objective, of classify also what two classes need; sum and count of the
       own losses */
    static const double sums[] = {6, 3, 4, 0, 0, 0, 10, 2, 5, 7, 2, 0, 0};
    const struct {
        const char *name;
        double value;
        int selects;
        bool more, training_only;
    } want[] = {{"classify.accuracy", 0.75, 1, true, false},
                {"classify.loss", 1.5, 2, false, false},
                {"classify.macro_f1", (double)NAN, 0, true, false},
                {"next_token.perplexity", exp(2), 3, false, false},
                {"next_token.loss", 2, 0, false, false},
                {"next_token.accuracy", 0.4, 0, true, false},
                {own[0], 3.5, 0, false, true},
                {own[1], (double)NAN, 0, false, true}};
    enum { METRICS = sizeof want / sizeof *want, SUMS = sizeof sums / sizeof *sums };
    double values[MODEL_METRICS];
    assert_int_equal(model_num_metrics(t.model), METRICS);
    assert_int_equal(model_num_sums(t.model), SUMS);
    values[METRICS] = -7;
    model_metrics(t.model, sums, values);
    assert_true(values[METRICS] == -7);
    for (size_t i = 0; i < METRICS; i++) {
        const struct model_metric *metric = model_metric(t.model, i);
        assert_string_equal(metric->name, want[i].name);
        assert_true(metric->selects == want[i].selects && metric->more_is_better == want[i].more &&
                    metric->training_only == want[i].training_only);
        if (isnan(want[i].value))
            assert_true(isnan(values[i]));
        else
            check_near(values[i], want[i].value, 1e-15, want[i].name);
    }
    static const char *const sum_names[] = {
        "classify.loss",           "classify.correct",         "classify.count",
        "classify.true_positives", "classify.false_positives", "classify.false_negatives",
        "next_token.loss",         "next_token.correct",       "next_token.count"};
    for (size_t i = 0; i < 9; i++) {
        model_sum_name(t.model, i, name);
        assert_string_equal(name, sum_names[i]);
    }
    model_sum_name(t.model, 11, name);
    assert_string_equal(name, "second.own_loss");
    model_sum_name(t.model, 12, name);
    assert_string_equal(name, "second.count");

    /* Better by accuracy; if equal, by the loss; the rest does not select. */
    double best[MODEL_METRICS];
    memcpy(best, values, sizeof best);
    assert_false(model_is_better(t.model, values, best));
    best[2] = 100, best[4] = 0;
    assert_false(model_is_better(t.model, values, best));
    best[1] = 1.6;
    assert_true(model_is_better(t.model, values, best));
    best[1] = 1.4;
    assert_false(model_is_better(t.model, values, best));
    best[0] = 0.7;
    assert_true(model_is_better(t.model, values, best));
    best[0] = 0.8, best[1] = 1.6;
    assert_false(model_is_better(t.model, values, best));
    model_free(&t.host, t.model);
}

static void one_objective_has_plain_names(void **state)
{
    (void)state;
    struct metrics_test t;
    open_test(&t);
    struct model_config config = t.config;
    struct model *plain;
    char name[METRIC_NAME];
    config.num_objectives = 1;
    config.plan = single_plan(attention_find("softmax"), NULL); /* no own loss */
    check_status(&t.host, model_new(&t.host, &config, &plain), HASHATTN_OK, NULL);
    assert_true(model_num_metrics(plain) == 3 && model_num_sums(plain) == 6);
    assert_string_equal(model_metric(plain, 0)->name, "accuracy");
    assert_string_equal(model_metric(plain, 1)->name, "loss");
    model_sum_name(plain, 2, name);
    assert_string_equal(name, "count");
    assert_int_equal(model_num_baselines(plain), 1);
    model_baseline_name(plain, 0, name);
    assert_string_equal(name, "majority");
    model_free(&t.host, plain);
    model_free(&t.host, t.model);
}

/* Two classes, with another metric than the objective chooses; and a regression. */
static void the_config_chooses_the_metric(void **state)
{
    (void)state;
    struct metrics_test t;
    open_test(&t);
    struct model_config config = t.config;
    struct model *two, *scores;
    config.causal = 0;
    config.num_objectives = 1;
    config.plan = single_plan(attention_find("softmax"), NULL);
    config.objectives[0].num_outputs = 2;
    strcpy(config.objectives[0].selects, "matthews");
    check_status(&t.host, model_new(&t.host, &config, &two), HASHATTN_OK, NULL);
    static const char *const names[] = {"accuracy", "f1", "matthews", "loss", "macro_f1"};
    static const int ranks[] = {0, 0, 1, 2, 0};
    assert_int_equal(model_num_metrics(two), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(model_metric(two, i)->name, names[i]);
        assert_int_equal(model_metric(two, i)->selects, ranks[i]);
        assert_true(model_metric(two, i)->overall == (i == 4));
    }
    const double better[] = {0.1, 0.1, 0.9, 5, 0}, worse[] = {0.9, 0.9, 0.8, 1, 0};
    assert_true(model_is_better(two, better, worse) && !model_is_better(two, worse, better));
    assert_int_equal(model_num_overall(two), 1);
    /* F1 of class 0 is 2/3, of class 1 4/5; the last has no weight. */
    const float found_outputs[] = {.9F, .1F, .4F, .6F, .2F, .8F, .3F, .7F, .9F, .1F},
                weights[] = {1, 1, 1, 1, 0};
    const uint32_t classes[] = {0, 0, 1, 1, 1};
    const struct targets of_two = {.ids = classes, .weights = weights};
    double found[MODEL_METRICS];
    check_status(&t.host, model_overall(&t.host, two, &of_two, found_outputs, 5, found), HASHATTN_OK, NULL);
    assert_true(fabs(found[4] - (2.0 / 3 + 4.0 / 5) / 2) < 1e-15);
    model_free(&t.host, two);
    config.objectives[0].positive = 1; /* true positives are then those of class 0 */
    check_status(&t.host, model_new(&t.host, &config, &two), HASHATTN_OK, NULL);
    model_free(&t.host, two);
    config.objectives[0].positive = 3;
    check_status(&t.host, model_new(&t.host, &config, &two), HASHATTN_INVALID, "the positive class is none");
    config.objectives[0].positive = 0;
    config.objectives[0].num_outputs = CLASSES; /* F1 and Matthews' correlation are of two */
    check_status(&t.host, model_new(&t.host, &config, &two), HASHATTN_INVALID,
                 "classify has no metric 'matthews' that could choose the best model");

    config.objectives[0] =
        (struct model_objective){.objective = objective_find("regress"), .weight = 1, .num_outputs = 1};
    check_status(&t.host, model_new(&t.host, &config, &scores), HASHATTN_OK, NULL);
    assert_int_equal(model_num_metrics(scores), 3);
    assert_int_equal(model_num_overall(scores), 1);
    assert_true(model_metric(scores, 0)->selects == 1 && model_metric(scores, 2)->overall);
    assert_string_equal(model_metric(scores, 2)->name, "spearman");
    const double sums[] = {8, 4, 10, 10, 30, 30, 20}; /* of 1 2 3 4 and 4 3 2 1 */
    const float outputs[] = {1, 2, 3, 9}, floats[] = {1, 2, 4, 3};
    const struct targets targets = {.floats = floats};
    double values[MODEL_METRICS];
    model_metrics(scores, sums, values);
    check_near(values[0], -1, 1e-15, "pearson");
    check_near(values[1], 2, 0, "loss");
    assert_true(isnan(values[2]));
    check_status(&t.host, model_overall(&t.host, scores, &targets, outputs, 4, values), HASHATTN_OK, NULL);
    check_near(values[0], -1, 1e-15, "pearson, as before");
    check_near(values[2], 0.8, 1e-15, "spearman");
    struct failing_host failing;
    failing_host_init(&failing, 0);
    check_status(&failing.host, model_overall(&failing.host, scores, &targets, outputs, 4, values),
                 HASHATTN_NO_MEMORY, NULL);
    model_free(&t.host, scores);
    model_free(&t.host, t.model);
}

static void batches_are_counted(void **state)
{
    (void)state;
    struct metrics_test t;
    open_test(&t);
    const struct params *params = model_params(t.model);
    const size_t offsets[] = {0, 3, 4, TOKENS};
    const uint32_t tokens[TOKENS] = {0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3}, labels[SEQUENCES] = {2, 1, 2},
                   next[TOKENS] = {1, 1, 1, 2, 3, 4, 1, 2, 1, 1, 4, 4};
    const uint64_t samples[SEQUENCES] = {4, 5, 6};
    const struct targets targets[] = {{.ids = labels}, {.ids = next}};
    struct model_batch batch = {
        .kernels = kernels_all()[0],
        .num_sequences = SEQUENCES,
        .offsets = offsets,
        .input = {.ids = tokens},
        .targets = targets,
        .sample_ids = samples,
        .random_key = 7,
        .training = true,
    };
    float *values = new_zeros(params->total), *block = new_zeros(params_packed_floats(params) + 1);
    params_start(params, 3, values);
    const float *packed = params_pack(params, batch.kernels, NULL, values, true, block);
    struct test_pass pass = {.plan = NULL};
    test_pass_open(&pass, &t.host, t.model, &batch, packed);
    double sums[MODEL_SUMS] = {0};
    model_forward(pass.pass);
    for (int i = 0; i < 2; i++)
        model_count(pass.pass, sums);
    check_near(sums[2], 2 * SEQUENCES, 0, "examples");
    check_near(sums[8], 2 * TOKENS, 0, "tokens");
    check_near(sums[10], 2 * SEQUENCES, 0, "sequences of the first mechanism");
    check_near(sums[12], 2 * SEQUENCES, 0, "sequences of the second mechanism");
    assert_true(sums[9] > 0 && sums[11] > 0 && sums[9] != sums[11] && sums[13] == 0 && sums[14] == 0);
    batch.training = false;
    memset(sums, 0, sizeof sums);
    test_pass_open(&pass, &t.host, t.model, &batch, packed);
    model_forward(pass.pass);
    model_count(pass.pass, sums);
    check_near(sums[2], SEQUENCES, 0, "examples");
    check_near(sums[10] + sums[12], 0, 0, "no own losses in evaluation");

    assert_int_equal(model_outputs(t.model), CLASSES);
    assert_int_equal(model_num_baselines(t.model), 2);
    char name[METRIC_NAME];
    model_baseline_name(t.model, 0, name);
    assert_string_equal(name, "classify.majority");
    model_baseline_name(t.model, 1, name);
    assert_string_equal(name, "next_token.majority");
    double baselines[3] = {-1, -1, -1};
    size_t size = model_baselines_size(t.model);
    assert_int_equal(size, 2 * 64); /* five and six counts of eight bytes, in whole cache lines */
    void *counts = aligned_alloc(64, size);
    memset(counts, 0, size);
    model_baseline_count(t.model, &batch, counts);
    model_baselines(t.model, counts, baselines);
    check_near(baselines[0], 2.0 / 3, 1e-15, "two labels of three are 2");
    check_near(baselines[1], 6.0 / 12, 1e-15, "six tokens of twelve are 1");
    check_near(baselines[2], -1, 0, "not written");
    test_pass_close(&pass);
    free(counts), free(values), free(block);
    model_free(&t.host, t.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_values_are_those_of_the_objectives),
        cmocka_unit_test(one_objective_has_plain_names),
        cmocka_unit_test(the_config_chooses_the_metric),
        cmocka_unit_test(batches_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
