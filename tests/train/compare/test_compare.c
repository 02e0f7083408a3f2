/* Runs on the same examples, against their evaluations one example at a time. Bugs planted and caught: the
   second run evaluated with another seed; targets or directories not compared; the progress of the second
   evaluation begun at 0; sums of all examples in the place of the first; labels of f1 not compared.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/evaluate_once.h"
#include "train/compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/named_metric.h"
#include "support/small_run.h"

static const struct metric_difference *difference_named(const struct comparison *comparison, const char *name)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (strcmp(comparison->list[i].metric->name, name) == 0)
            return &comparison->list[i];
    fail_msg("no metric %s", name);
    return NULL;
}

/* An untrained run, started from a seed. */
struct fixture {
    struct small_run small;
    struct train_setup setup;
    struct model *model;
    float *values;
    struct compared run;
};

static void fixture_init(struct fixture *fixture, const char *mechanism, uint64_t seed, int threads)
{
    const char *why;
    void *block;
    memset(fixture, 0, sizeof *fixture);
    small_run_init(&fixture->small, mechanism, 24, 3);
    struct host *host = &fixture->small.host;
    fixture->setup.kernels = kernels_named("auto", &why);
    check_status(host, pool_new(host, threads, &fixture->setup.pool), HASHATTN_OK, NULL);
    check_status(host, model_new(host, &fixture->small.config.model, &fixture->model), HASHATTN_OK, NULL);
    const struct params *params = model_params(fixture->model);
    check_status(host, memory_new_zeroed(host, params->total, sizeof(float), "values", &block), HASHATTN_OK,
                 NULL);
    fixture->values = block;
    params_start(params, seed, fixture->values);
    for (size_t i = 0; i < params->total; i++)
        fixture->values[i] *= 3; /* so that predictions differ */
    fixture->run = (struct compared){&fixture->small.config, fixture->model, fixture->values};
}

static void fixture_free(struct fixture *fixture)
{
    struct host *host = &fixture->small.host;
    memory_free(host, fixture->values);
    model_free(host, fixture->model);
    pool_free(host, fixture->setup.pool);
    small_run_free(&fixture->small);
}

static hashattn_status compare(struct fixture *a, const struct fixture *b, const char *data, enum split split,
                               struct comparison *found)
{
    return compare_runs(&a->small.host, &a->setup, &a->run, &b->run, data, split, 9, found);
}

/* The loss of each example by evaluations of one example. */
static void losses(struct fixture *fixture, struct small_run *data, double *found, double *mean)
{
    struct dataset dataset, one;
    struct evaluation evaluation;
    small_run_load(data, SPLIT_VALID, &dataset);
    for (size_t i = 0; i < dataset.count; i++) {
        one = dataset;
        one.offsets = dataset.offsets + i;
        one.count = 1;
        one.targets[0].ids = dataset.targets[0].ids + i;
        one.targets[0].weights = dataset.targets[0].weights == NULL ? NULL : dataset.targets[0].weights + i;
        check_status(&fixture->small.host,
                     evaluate_once(&fixture->small.host, &fixture->setup, fixture->model, fixture->values,
                                   &one, 1, 9, NULL, &evaluation),
                     HASHATTN_OK, NULL);
        found[i] = metric_named(fixture->model, evaluation.metrics, "loss");
    }
    check_status(&fixture->small.host,
                 evaluate_once(&fixture->small.host, &fixture->setup, fixture->model, fixture->values,
                               &dataset, 5, 9, NULL, &evaluation),
                 HASHATTN_OK, NULL);
    *mean = metric_named(fixture->model, evaluation.metrics, "loss");
    dataset_free(&data->host, &dataset);
}

struct heard {
    size_t calls, last;
};

static bool hear(void *user, const struct train_event *event)
{
    struct heard *heard = user;
    assert_int_equal(event->steps, 24); /* 12 examples, twice */
    assert_int_equal(event->step, heard->last + 1);
    heard->last = (size_t)event->step;
    heard->calls++;
    return false;
}

static bool stop_in_the_second(void *user, const struct train_event *event)
{
    (void)user;
    return event->step == 15;
}

static void runs_are_compared_on_the_same_examples(void **state)
{
    (void)state;
    struct fixture a, b;
    fixture_init(&a, "yoso", 1, 2);
    fixture_init(&b, "lha", 2, 1); /* has sums and a metric of its own loss */
    struct comparison found, again;
    struct heard heard = {0};
    a.setup.callback = hear;
    a.setup.user = &heard;
    check_status(&a.small.host, compare(&a, &b, a.small.data, SPLIT_VALID, &found), HASHATTN_OK, NULL);
    assert_int_equal(heard.calls, 24);
    a.setup.callback = NULL;
    double of_a[12], of_b[12], mean_a, mean_b, squares = 0;
    losses(&a, &a.small, of_a, &mean_a);
    losses(&b, &a.small, of_b, &mean_b);
    for (int i = 0; i < 12; i++)
        squares += pow(of_a[i] - of_b[i] - (mean_a - mean_b), 2);
    assert_int_equal(found.examples, 12);
    assert_int_equal(found.count, 2);
    const struct metric_difference *loss = difference_named(&found, "loss");
    check_near(loss->value, mean_a, 1e-12, "loss of the run");
    check_near(loss->other, mean_b, 1e-12, "loss of the other");
    check_near(loss->standard_error, sqrt(squares / 11 / 12), 1e-12, "standard error");
    assert_true(loss->standard_error > 1e-4);
    check_status(&b.small.host, compare(&b, &a, a.small.data, SPLIT_VALID, &again), HASHATTN_OK, NULL);
    const struct metric_difference *turned = difference_named(&again, "loss");
    assert_true(turned->difference == -loss->difference && turned->standard_error == loss->standard_error &&
                turned->z == -loss->z);
    a.setup.callback = stop_in_the_second;
    check_status(&a.small.host, compare(&a, &b, a.small.data, SPLIT_VALID, &found), HASHATTN_INTERRUPTED,
                 "stopped after 3 of 12 examples");
    fixture_free(&b);
    fixture_free(&a);
}

/* Loads needles, changed for these seeds. */
enum { FEWER = 101, OTHER_LABEL, ONE };

static hashattn_status load_changed(struct host *host, const void *options, const struct task_facts *facts,
                                    const char *directory, enum split split, uint64_t seed,
                                    struct dataset *dataset)
{
    TRY(task_find("needle")->load(host, options, facts, directory, split, seed, dataset));
    if (seed == FEWER)
        dataset->count -= 2;
    if (seed == OTHER_LABEL)
        dataset->targets[0].ids[11] = (dataset->targets[0].ids[11] + 1) % 16;
    if (seed == ONE)
        dataset->count = 1;
    return HASHATTN_OK;
}

static void what_cannot_be_paired_is_refused(void **state)
{
    (void)state;
    struct fixture a, b;
    struct comparison found;
    char want[400];
    fixture_init(&a, "yoso", 1, 1);
    fixture_init(&b, "yoso", 2, 1);
    snprintf(want, sizeof want, "trained on %s, the one it is compared with on %s", a.small.data,
             b.small.data);
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_INVALID, want);
    check_status(&a.small.host, compare(&a, &b, "nowhere", SPLIT_VALID, &found), HASHATTN_BAD_FILE,
                 "nowhere");
    strcpy(b.small.config.data, a.small.data);
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_OK, NULL);

    const struct task *needle = b.small.config.task;
    b.small.config.task = task_find("listops");
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_INVALID,
                 "the run is of task needle, the one it is compared with of listops");
    b.small.config.task = needle;
    b.small.config.model.objectives[0].positive = 2;
    snprintf(want, sizeof want, "f1 is that of the default label in the run and of %s in the one",
             b.small.config.facts.labels[1]);
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_INVALID, want);
    b.small.config.model.objectives[0].positive = 0;

    struct task changing = *needle;
    changing.load = load_changed;
    a.small.config.task = b.small.config.task = &changing;
    b.small.config.training.seed = FEWER;
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_INVALID,
                 "valid has 12 for the run and 10 for the one it is compared with");
    b.small.config.training.seed = OTHER_LABEL;
    snprintf(want, sizeof want,
             "the targets of the 12 examples of valid differ (a split that is cut from the "
             "training file depends on the seed of training, %lld and 102 here)",
             (long long)a.small.config.training.seed);
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_INVALID, want);
    a.small.config.training.seed = b.small.config.training.seed = ONE;
    check_status(&a.small.host, compare(&a, &b, NULL, SPLIT_VALID, &found), HASHATTN_INVALID,
                 "valid has 1 example, a comparison needs at least 2");
    a.small.config.task = b.small.config.task = needle;
    fixture_free(&b);
    fixture_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_compared_on_the_same_examples),
        cmocka_unit_test(what_cannot_be_paired_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
