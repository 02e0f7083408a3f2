/* Evaluation: what it counts is what the model says of each example, however examples are put together.
   Bugs planted and caught: the last partial batch left out; labels taken from the start of the set;
   probabilities always written at the start; the seed not used; token ids not checked at the upper end.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/check.h"
#include "support/small_run.h"

enum { CLASSES = 16 };

/* An untrained model on the validation set of a small run. */
struct fixture {
    struct small_run small;
    struct train_setup setup;
    struct encoder *encoder;
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
    check_status(host, encoder_new(host, &fixture->small.config.model, &fixture->encoder), HASHATTN_OK, NULL);
    const struct params *params = encoder_params(fixture->encoder);
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
    encoder_free(host, fixture->encoder);
    pool_free(host, fixture->setup.pool);
    dataset_free(host, &fixture->dataset);
    small_run_free(&fixture->small);
}

static hashattn_status run(struct fixture *fixture, size_t batch, uint64_t seed, float *probabilities,
                           struct evaluation *found)
{
    return evaluate(&fixture->small.host, &fixture->setup, fixture->encoder, fixture->values,
                    &fixture->dataset, batch, seed, probabilities, found);
}

/* Logits of one example by itself, without evaluate. */
static void logits_alone(struct fixture *fixture, size_t example, float logits[CLASSES])
{
    size_t from = fixture->dataset.offsets[example],
           offsets[2] = {0, fixture->dataset.offsets[example + 1] - from};
    const struct encoder_batch batch = {.kernels = fixture->setup.kernels,
                                        .pool = fixture->setup.pool,
                                        .num_sequences = 1,
                                        .offsets = offsets,
                                        .tokens = fixture->dataset.tokens + from,
                                        .random_key = random_key(9, RANDOM_EVALUATION, 0)};
    void *workspace;
    check_status(&fixture->small.host,
                 memory_new(&fixture->small.host, encoder_workspace_size(fixture->encoder, &batch), 1, "w",
                            &workspace),
                 HASHATTN_OK, NULL);
    encoder_forward(fixture->encoder, &batch, fixture->values, workspace, logits);
    memory_free(&fixture->small.host, workspace);
}

static void batches_of_any_size_give_what_single_examples_give(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    size_t count = fixture.dataset.count, counts[CLASSES] = {0};
    assert_int_equal(count, 12);
    double loss = 0, accuracy = 0, majority = 0, want[12 * CLASSES];
    for (size_t i = 0; i < count; i++) {
        float logits[CLASSES];
        double sum = 0;
        size_t best = 0, label = (size_t)fixture.dataset.labels[i];
        logits_alone(&fixture, i, logits);
        for (size_t c = 0; c < CLASSES; c++) {
            sum += exp((double)logits[c]);
            best = logits[c] > logits[best] ? c : best;
        }
        for (size_t c = 0; c < CLASSES; c++)
            want[i * CLASSES + c] = exp((double)logits[c]) / sum;
        loss -= log(want[i * CLASSES + label]) / (double)count;
        accuracy += (best == label ? 1.0 : 0.0) / (double)count;
        double share = (double)++counts[label] / (double)count;
        majority = share > majority ? share : majority;
    }
    /* A packed batch may round otherwise than a single sequence, in products of up to 24 terms through a
       dozen layers; the logits are of order 1. */
    const double rounding = 12 * 24 * 0x1p-24;
    for (size_t batch = 1; batch <= 13; batch += 4) { /* 1, 5 and 9 leave a part, 13 is more than there are */
        float probabilities[12 * CLASSES];
        struct evaluation found;
        check_status(&fixture.small.host, run(&fixture, batch, 9, probabilities, &found), HASHATTN_OK, NULL);
        check_near(found.loss, loss, rounding, "loss");
        check_near(found.accuracy, accuracy, 1e-12, "accuracy");
        check_near(found.majority, majority, 1e-12, "majority");
        check_near_all(probabilities, want, 12 * CLASSES, rounding, "probabilities");
        assert_int_equal(found.examples, 12);
        assert_true(found.seconds > 0 && found.tokens_per_second > 0);
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
    assert_true(one.loss == again.loss && one.loss != other.loss);
    fixture_free(&fixture);
}

static void unlabelled_examples_are_predicted_and_not_counted(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    float all[12 * CLASSES], some[12 * CLASSES];
    struct evaluation found;
    check_status(&fixture.small.host, run(&fixture, 5, 9, all, &found), HASHATTN_OK, NULL);
    int32_t labels[12];
    memcpy(labels, fixture.dataset.labels, sizeof labels);
    /* Only one is left, with a label that the model gives or does not give. */
    for (int right = 0; right < 2; right++) {
        size_t best = 0;
        for (size_t c = 0; c < CLASSES; c++)
            best = all[7 * CLASSES + c] > all[7 * CLASSES + best] ? c : best;
        for (size_t i = 0; i < 12; i++)
            fixture.dataset.labels[i] = i != 7 ? -1 : (int32_t)(right ? best : (best + 1) % CLASSES);
        check_status(&fixture.small.host, run(&fixture, 5, 9, some, &found), HASHATTN_OK, NULL);
        assert_true(found.accuracy == right && found.majority == 1 && found.examples == 12);
        check_same_bits(all, some, sizeof all, "probabilities");
    }
    fixture.dataset.labels[7] = -1;
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    assert_true(isnan(found.accuracy) && isnan(found.loss) && isnan(found.majority));
    fixture.dataset.count = 0;
    check_status(&fixture.small.host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    assert_true(isnan(found.accuracy) && found.examples == 0);
    memcpy(fixture.dataset.labels, labels, sizeof labels);
    fixture_free(&fixture);
}

static void what_does_not_fit_the_model_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct host *host = &fixture.small.host;
    struct evaluation found;
    uint16_t *tokens = fixture.dataset.tokens;
    int vocab = (int)fixture.small.config.model.vocab_size;
    const uint16_t token = tokens[30];
    tokens[30] = (uint16_t)vocab;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE, "example 1 has token id 34");
    tokens[30] = 0;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE,
                 "token id 0, the model takes 1 to 33");
    tokens[30] = (uint16_t)(vocab - 1);
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_OK, NULL);
    tokens[30] = token;
    fixture.dataset.pairs = true;
    fixture.dataset.count /= 2;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE,
                 "an example is 2 sequences, the model takes 1");
    fixture.dataset.pairs = false;
    fixture.dataset.count *= 2;
    fixture.dataset.labels[3] = CLASSES;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE,
                 "label number 16, the model knows 16");
    fixture.dataset.labels[3] = 0;
    fixture.dataset.offsets[1] -= 1;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE, "example 1 has 25 tokens");
    fixture.dataset.offsets[1] = 0;
    check_status(host, run(&fixture, 5, 9, NULL, &found), HASHATTN_BAD_FILE, "example 0 has 0 tokens");
    fixture_free(&fixture);
}

static bool stop_after_seven(void *user, const struct train_event *event)
{
    int *calls = user;
    (*calls)++;
    assert_int_equal(event->steps, 12);
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
        status = evaluate(&failing.host, &fixture.setup, fixture.encoder, fixture.values, &fixture.dataset, 5,
                          9, NULL, &found);
        assert_int_equal(failing.outstanding, 0);
        assert_true(n < 100);
    }
    fixture_free(&fixture);
}

static void the_workspace_grows_and_is_kept(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct workspace workspace = {NULL, 0};
    check_status(&host, workspace_fit(&host, &workspace, 1000), HASHATTN_OK, NULL);
    assert_int_equal(workspace.size, 1000);
    void *block = workspace.block;
    check_status(&host, workspace_fit(&host, &workspace, 999), HASHATTN_OK, NULL);
    assert_true(workspace.block == block && workspace.size == 1000);
    check_status(&host, workspace_fit(&host, &workspace, 1001), HASHATTN_OK, NULL);
    assert_int_equal(workspace.size, 1125);
    check_status(&host, workspace_fit(&host, &workspace, SIZE_MAX), HASHATTN_NO_MEMORY, "activations");
    assert_true(workspace.block == NULL && workspace.size == 0);
    workspace_free(&host, &workspace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_any_size_give_what_single_examples_give),
        cmocka_unit_test(the_seed_decides_the_hashing),
        cmocka_unit_test(unlabelled_examples_are_predicted_and_not_counted),
        cmocka_unit_test(what_does_not_fit_the_model_is_refused),
        cmocka_unit_test(a_callback_can_stop_it),
        cmocka_unit_test(failing_allocations_leave_nothing),
        cmocka_unit_test(the_workspace_grows_and_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
