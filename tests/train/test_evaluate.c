/* Evaluation: its counts match the model's output for each example, however examples are batched. Bugs
   planted and caught: the last partial batch left out; labels read from the start of the set; probabilities
   always written at the start; the seed not used; token ids not checked at the upper end; weights taken for
   ones; labels checked that are not targets, or those of rows not; floats taken for ids, targets of rows for
   those of examples; the first id of a sequence checked as if it were a target; confusion transposed, or
   counted in one batch only; counts of labels over the confusion; sparse targets of the first examples for
   those that were chosen.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/check.h"
#include "support/evaluate_once.h"
#include "support/named_metric.h"
#include "support/small_run.h"
#include "support/test_pass.h"

enum { CLASSES = 16 };

/* An untrained model on the validation set of a small run. */
struct fixture {
    struct small_run small;
    struct train_setup setup;
    struct model *model;
    struct dataset dataset;
    float *values;
};

static void fixture_init(struct fixture *fixture)
{
    const char *why;
    struct host *host = &fixture->small.host;
    memset(fixture, 0, sizeof *fixture);
    small_run_init(&fixture->small, "yoso", 24, 3);
    small_run_load(&fixture->small, SPLIT_VALID, &fixture->dataset);
    fixture->setup.kernels = kernels_named("auto", &why);
    check_status(host, pool_new(host, 2, &fixture->setup.pool), HASHATTN_OK, NULL);
    check_status(host, model_new(host, &fixture->small.config.model, &fixture->model), HASHATTN_OK, NULL);
    const struct params *params = model_params(fixture->model);
    void *block;
    check_status(host, memory_new_zeroed(host, params->total, sizeof(float), "values", &block), HASHATTN_OK,
                 NULL);
    fixture->values = block;
    params_start(params, 1, fixture->values);
}

static void fixture_free(struct fixture *fixture)
{
    struct host *host = &fixture->small.host;
    memory_free(host, fixture->values);
    model_free(host, fixture->model);
    pool_free(host, fixture->setup.pool);
    dataset_free(host, &fixture->dataset);
    small_run_free(&fixture->small);
}

static hashattn_status run(struct fixture *fixture, size_t batch, uint64_t seed, float *probabilities,
                           struct evaluation *found)
{
    return evaluate_once(&fixture->small.host, &fixture->setup, fixture->model, fixture->values,
                         &fixture->dataset, batch, seed, probabilities, found);
}

/* Probabilities of one example by itself, without evaluate. */
static void probabilities_alone(struct fixture *fixture, size_t example, float probabilities[CLASSES])
{
    size_t from = fixture->dataset.offsets[example],
           offsets[2] = {0, fixture->dataset.offsets[example + 1] - from};
    const struct model_batch batch = {.kernels = fixture->setup.kernels,
                                      .pool = fixture->setup.pool,
                                      .num_sequences = 1,
                                      .offsets = offsets,
                                      .input = {.ids = fixture->dataset.ids + from},
                                      .random_key = random_key(9, RANDOM_EVALUATION, 0)};
    struct test_pass pass = {.plan = NULL};
    test_pass_open(&pass, &fixture->small.host, fixture->model, &batch, fixture->values);
    model_forward(pass.pass);
    model_predict(pass.pass, probabilities);
    test_pass_close(&pass);
}

static double metric(const struct fixture *fixture, const struct evaluation *found, const char *name)
{
    return metric_named(fixture->model, found->metrics, name);
}

static double majority(const struct fixture *fixture, const struct evaluation *found)
{
    return baseline_named(fixture->model, found->baselines, "majority");
}

static size_t best_of(const float *probabilities)
{
    size_t best = 0;
    for (size_t c = 0; c < CLASSES; c++)
        best = probabilities[c] > probabilities[best] ? c : best;
    return best;
}

/* A packed batch may round differently from a single sequence, in products of up to 24 terms through a dozen
   layers; the logits are of order 1. */
static const double rounding = 12 * 24 * 0x1p-24;

static void batches_of_any_size_give_what_single_examples_give(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    size_t count = fixture.dataset.count, counts[CLASSES] = {0};
    assert_int_equal(count, 12);
    fixture.dataset.num_cut = 3;
    fixture.dataset.num_unknown = 5;
    double loss = 0, accuracy = 0, commonest = 0, want[12 * CLASSES];
    size_t confusion[CLASSES * CLASSES] = {0}, labels[CLASSES * 3] = {0}; /* right, wrong, missed */
    for (size_t i = 0; i < count; i++) {
        float probabilities[CLASSES];
        double sum = 0;
        size_t label = fixture.dataset.targets[0].ids[i];
        probabilities_alone(&fixture, i, probabilities);
        for (size_t c = 0; c < CLASSES; c++)
            sum += want[i * CLASSES + c] = (double)probabilities[c];
        check_near(sum, 1, CLASSES * 0x1p-24, "sum of the probabilities");
        loss -= log(want[i * CLASSES + label]) / (double)count;
        confusion[label * CLASSES + best_of(probabilities)]++;
        labels[3 * best_of(probabilities) + (best_of(probabilities) != label)]++;
        labels[3 * label + 2] += best_of(probabilities) != label;
        accuracy += (best_of(probabilities) == label ? 1.0 : 0.0) / (double)count;
        double share = (double)++counts[label] / (double)count;
        commonest = share > commonest ? share : commonest;
    }
    for (size_t batch = 1; batch <= 13; batch += 4) { /* 5 and 9 leave a part, 13 is more than the set */
        float probabilities[12 * CLASSES];
        struct evaluation found;
        check_status(&fixture.small.host, run(&fixture, batch, 9, probabilities, &found), HASHATTN_OK, NULL);
        check_near(metric(&fixture, &found, "loss"), loss, rounding, "loss");
        check_near(metric(&fixture, &found, "accuracy"), accuracy, 1e-12, "accuracy");
        check_near(majority(&fixture, &found), commonest, 1e-12, "majority");
        check_near_all(probabilities, want, 12 * CLASSES, rounding, "probabilities");
        assert_int_equal(found.confused, CLASSES);
        check_same_bits(found.confusion, confusion, sizeof confusion, "confusion");
        assert_int_equal(found.labels, CLASSES);
        check_same_bits(found.label_counts, labels, sizeof labels, "counts of labels");
        assert_int_equal(found.examples, 12);
        assert_int_equal(found.tokens, 12 * 24);
        assert_true(found.seconds > 0 && found.num_cut == 3 && found.num_unknown == 5);
        check_near(found.tokens_per_second * found.seconds, 12 * 24, 1e-9, "tokens from their rate");
    }
    fixture_free(&fixture);
}

static void the_seed_decides_the_hashing(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct evaluation one, again, other;
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &one), HASHATTN_OK, NULL);
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &again), HASHATTN_OK, NULL);
    check_status(&fixture.small.host, run(&fixture, 5, 10, NULL, &other), HASHATTN_OK, NULL);
    double loss = metric(&fixture, &one, "loss");
    assert_true(loss == metric(&fixture, &again, "loss") && loss != metric(&fixture, &other, "loss"));
    fixture_free(&fixture);
}

static void unlabelled_examples_are_predicted_and_not_counted(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    float all[12 * CLASSES], some[12 * CLASSES], *weights = fixture.dataset.targets[0].weights;
    uint32_t *labels = fixture.dataset.targets[0].ids;
    struct evaluation found;
    check_status(&fixture.small.host, run(&fixture, 5, 9, all, &found), HASHATTN_OK, NULL);
    /* Only one example is left, with a label that the model predicts or does not predict. */
    for (int right = 0; right < 2; right++) {
        size_t best = best_of(all + 7 * CLASSES);
        for (size_t i = 0; i < 12; i++) {
            labels[i] = i != 7 ? UINT32_MAX : (uint32_t)(right ? best : (best + 1) % CLASSES);
            weights[i] = i == 7;
        }
        check_status(&fixture.small.host, run(&fixture, 5, 9, some, &found), HASHATTN_OK, NULL);
        assert_true(metric(&fixture, &found, "accuracy") == right && majority(&fixture, &found) == 1);
        assert_int_equal(found.examples, 12);
        check_same_bits(all, some, sizeof all, "probabilities");
    }
    weights[7] = 0;
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    assert_true(isnan(metric(&fixture, &found, "accuracy")) && isnan(metric(&fixture, &found, "loss")));
    assert_true(isnan(majority(&fixture, &found)));
    fixture.dataset.count = 0;
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    assert_true(isnan(metric(&fixture, &found, "accuracy")) && found.examples == 0);
    fixture_free(&fixture);
}

static void weights_count_as_often(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    float probabilities[12 * CLASSES], *weights = fixture.dataset.targets[0].weights;
    const uint32_t *labels = fixture.dataset.targets[0].ids;
    double loss = 0, right = 0, total = 0;
    struct evaluation found;
    check_status(&fixture.small.host, run(&fixture, 5, 9, probabilities, &found), HASHATTN_OK, NULL);
    fixture.dataset.targets[0].ids[4] = (uint32_t)best_of(probabilities + 4 * CLASSES);
    for (size_t i = 0; i < 12; i++) {
        weights[i] = 0.5f * (float)i;
        total += 0.5 * (double)i;
        loss -= 0.5 * (double)i * log((double)probabilities[i * CLASSES + labels[i]]);
        right += best_of(probabilities + i * CLASSES) == labels[i] ? 0.5 * (double)i : 0;
    }
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    check_near(metric(&fixture, &found, "loss"), loss / total, rounding, "weighted loss");
    check_near(metric(&fixture, &found, "accuracy"), right / total, 1e-12, "weighted accuracy");
    fixture_free(&fixture);
}

static void what_does_not_fit_the_model_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct host *host = &fixture.small.host;
    struct dataset *dataset = &fixture.dataset;
    struct evaluation found;
    uint32_t *ids = dataset->ids, vocab = (uint32_t)fixture.small.config.model.vocab_size;
    const uint32_t id = ids[30];
    ids[30] = vocab;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE,
                 "example 1 has token id 34, the model takes 0 to 33");
    ids[30] = vocab - 1;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    ids[30] = id;
    dataset->pairs = true;
    dataset->count /= 2;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE,
                 "an example is 2 sequences, the model takes 1");
    dataset->pairs = false;
    dataset->count *= 2;
    dataset->targets[0].ids[3] = CLASSES;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE,
                 "example 3 has label number 16, classify has 16 labels");
    dataset->targets[0].weights[3] = 0; /* it has no target */
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    dataset->targets[0].ids[3] = 0;
    dataset->offsets[1] -= 1;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE, "example 1 has 25 tokens");
    dataset->offsets[1] = 0;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE, "example 0 has 0 tokens");
    fixture_free(&fixture);
}

/* Checks data against models that differ from the fixture's. */
static void check_data(struct fixture *fixture, const struct model_config *config,
                       const struct dataset *dataset, const char *part)
{
    struct host *host = &fixture->small.host;
    struct model *model;
    check_status(host, model_new(host, config, &model), HASHATTN_OK, NULL);
    check_status(host, evaluate_fit(host, model, dataset), part == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE,
                 part);
    model_free(host, model);
}

static void rows_and_targets_of_another_kind_are_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    float rows[6 * 3] = {0};
    uint8_t segments[6] = {0, 1, 0, 1, 0, 1};
    uint32_t labels[6] = {1, 0, 1, 0, 1, 0}, ids[6] = {1, 2, 0, 3, 33, 0};
    size_t offsets[3] = {0, 2, 6};
    struct model_config floats = fixture.small.config.model, next;
    floats.vocab_size = 0;
    floats.row_width = 3;
    floats.num_segments = 2;
    const struct dataset good = {.floats = rows,
                                 .row_width = 3,
                                 .segmented = true,
                                 .segments = segments,
                                 .offsets = offsets,
                                 .count = 2,
                                 .num_targets = 1,
                                 .targets = {{.kind = TARGETS_EXAMPLE, .ids = labels}}};
    struct dataset data = good;
    check_data(&fixture, &floats, &data, NULL);
    data.row_width = 4;
    check_data(&fixture, &floats, &data, "a row of the data has 4 floats, the model takes 3");
    data = good;
    data.segmented = false; /* all rows are of segment 0 */
    check_data(&fixture, &floats, &data, NULL);
    data = good;
    segments[5] = 2;
    check_data(&fixture, &floats, &data, "example 1 has segment id 2, the model takes 0 to 1");
    segments[5] = 1;
    data.num_targets = 2;
    check_data(&fixture, &floats, &data, "2 kinds of targets, the model has 1 objectives");
    data = good;
    data.targets[0].kind = TARGETS_ROW;
    check_data(&fixture, &floats, &data,
               "are an id per row, the model's classify predicts an id per example");
    data = good;
    data.targets[0].width = 3;
    check_data(&fixture, &floats, &data,
               "are floats per example, the model's classify predicts an id per example");

    floats.num_segments = 0;
    data = good;
    check_data(&fixture, &floats, &data, "the data have segments, the model takes none");
    floats.num_segments = 2;
    floats.pairs = true;
    check_data(&fixture, &floats, &data, "an example is 1 sequence, the model takes 2");
    floats.pairs = false;
    struct objective predicts_floats = *floats.objectives[0].objective;
    predicts_floats.type = TARGET_FLOATS;
    floats.objectives[0].objective = &predicts_floats;
    check_data(&fixture, &floats, &data,
               "are an id per example, the model's classify predicts floats per example");
    data.targets[0] = (struct target_set){.kind = TARGETS_EXAMPLE, .width = 3, .floats = rows};
    check_data(&fixture, &floats, &data, "a target of classify has 3 floats, the model predicts 16");
    floats.objectives[0].num_outputs = 3;
    check_data(&fixture, &floats, &data, NULL);

    /* Next ids, of which 0 is not one. */
    next = fixture.small.config.model;
    next.causal = true;
    next.objectives[0] = (struct model_objective){
        .objective = objective_find("next_token"), .weight = 1, .num_outputs = 33, .first_output = 1};
    data = (struct dataset){.ids = ids,
                            .offsets = offsets,
                            .count = 2,
                            .next = true,
                            .num_targets = 1,
                            .targets = {{.kind = TARGETS_NEXT}}};
    check_data(&fixture, &next, &data, "example 1 has target id 0, next_token predicts ids from 1 on");
    ids[5] = 34;
    check_data(&fixture, &next, &data, "example 1 has token id 34");
    ids[5] = 5; /* the 0 at the start of the second sequence is input only, not a target */
    check_data(&fixture, &next, &data, NULL);
    data.next = false;
    data.targets[0] = (struct target_set){.kind = TARGETS_ROW, .ids = labels};
    check_data(&fixture, &next, &data, "example 0 has label number 0, next_token has 33 labels from 1 on");
    for (size_t i = 0; i < 6; i++)
        labels[i] = 33;
    check_data(&fixture, &next, &data, NULL);
    labels[5] = 34;
    check_data(&fixture, &next, &data, "example 1 has label number 34, next_token has 33 labels from 1 on");
    fixture_free(&fixture);
}

static bool stop_after_seven(void *user, const struct train_event *event)
{
    int *calls = user;
    (*calls)++;
    assert_int_equal(event->steps, 12);
    assert_true(metric_named(event->model, event->train, "loss") > 0);
    assert_true(event->valid == NULL && event->best == NULL && event->seconds > 0);
    assert_int_equal(event->step, 3 * *calls);
    check_near(event->tokens_per_second * event->seconds, 24.0 * (double)event->step, 1e-9, "tokens");
    return event->step >= 7;
}

static void a_callback_can_stop_it(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct evaluation found;
    int calls = 0;
    fixture.setup.callback = stop_after_seven;
    fixture.setup.user = &calls;
    check_status(&fixture.small.host, run(&fixture, 3, 9, NULL, &found), HASHATTN_INTERRUPTED, "9 of 12");
    assert_int_equal(calls, 3);
    fixture_free(&fixture);
}

/* Sets of labels kept as places and as floats: the same metrics, macro-F1 among them, of all examples and of
   some. */
static void sparse_targets_give_the_metrics_of_their_floats(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct host *host = &fixture.small.host;
    float dense[12 * CLASSES] = {0};
    struct target_ones ones[12];
    uint32_t places[24];
    static const uint32_t chosen[] = {11, 2, 2, 7, 0};
    for (uint32_t i = 0; i < 12; i++) {
        ones[i] = (struct target_ones){.first = 2 * i, .count = 2};
        places[2 * i] = i % 3;
        places[2 * i + 1] = 3 + i;
        dense[i * CLASSES + i % 3] = dense[i * CLASSES + 3 + i] = 1;
    }
    struct model_config config = fixture.small.config.model;
    config.objectives[0] = (struct model_objective){
        .objective = objective_find("label_set"), .weight = 1, .num_outputs = CLASSES};
    struct model *model;
    check_status(host, model_new(host, &config, &model), HASHATTN_OK, NULL);
    struct dataset data = fixture.dataset;
    for (int part = 0; part < 2; part++) {
        struct evaluation found[2];
        for (int sparse = 0; sparse < 2; sparse++) {
            struct session session = {.model = NULL};
            data.targets[0] = (struct target_set){.kind = TARGETS_EXAMPLE,
                                                  .width = CLASSES,
                                                  .floats = sparse ? NULL : dense,
                                                  .sparse = sparse,
                                                  .ones = sparse ? ones : NULL,
                                                  .places = sparse ? places : NULL};
            check_status(host, evaluate_open(host, &fixture.setup, model, fixture.values, &session),
                         HASHATTN_OK, NULL);
            check_status(host,
                         evaluate_within(host, &fixture.setup, &session, &data, part ? chosen : NULL,
                                         part ? 5 : 12, 5, 9, NULL, &found[sparse]),
                         HASHATTN_OK, NULL);
            session_close(host, &session);
        }
        double macro = metric_named(model, found[1].metrics, "macro_f1");
        assert_true(macro > 0 && macro < 1);
        check_same_bits(found[1].metrics, found[0].metrics,
                        model_num_metrics(model) * sizeof *found[0].metrics, "metrics of sparse targets");
        check_same_bits(found[1].label_counts, found[0].label_counts,
                        CLASSES * LABEL_COUNTS * sizeof *found[0].label_counts, "counts of labels");
    }
    model_free(host, model);
    fixture_free(&fixture);
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long n = 0; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        struct evaluation found;
        failing_host_init(&failing, n);
        status = evaluate_once(&failing.host, &fixture.setup, fixture.model, fixture.values, &fixture.dataset,
                               5, 9, NULL, &found);
        assert_int_equal(failing.outstanding, 0);
        assert_true(n < 100);
    }
    fixture_free(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_any_size_give_what_single_examples_give),
        cmocka_unit_test(the_seed_decides_the_hashing),
        cmocka_unit_test(unlabelled_examples_are_predicted_and_not_counted),
        cmocka_unit_test(weights_count_as_often),
        cmocka_unit_test(what_does_not_fit_the_model_is_refused),
        cmocka_unit_test(rows_and_targets_of_another_kind_are_refused),
        cmocka_unit_test(a_callback_can_stop_it),
        cmocka_unit_test(sparse_targets_give_the_metrics_of_their_floats),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
