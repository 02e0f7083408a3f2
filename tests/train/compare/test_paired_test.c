/* The paired test against formulas of its own. Bugs planted and caught: the variance divided by n instead of
   n - 1; examples without targets counted; the sign of z not turned for losses; p of two tails; the other
   model's metric of the same index used for one of another name; z of two equal models not a number.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/compare/paired_test.h"

#include <math.h>
#include <string.h>

#include "support/check.h"
#include "support/small_run.h"

enum { N = 9, LOSS = 0, CORRECT, COUNT, TRUE_POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES };

/* A classifier with `classes`, whose sums begin as listed above. */
static struct model *classifier(struct small_run *small, size_t classes)
{
    struct model *model;
    small_run_init(small, "yoso", 24, 3);
    small->config.model.objectives[0].num_outputs = (int64_t)classes;
    check_status(&small->host, model_new(&small->host, &small->config.model, &model), HASHATTN_OK, NULL);
    return model;
}

static const struct metric_difference *difference_named(const struct comparison *comparison, const char *name)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (strcmp(comparison->list[i].metric->name, name) == 0)
            return &comparison->list[i];
    fail_msg("no metric %s", name);
    return NULL;
}

/* Right and wrong answers of two models on N examples of two classes, of which the last has no target. */
static const int labels[N] = {0, 1, 1, 0, 1, 0, 1, 1, 0}, first[N] = {0, 1, 1, 0, 0, 0, 1, 1, 0},
                 second[N] = {1, 1, 0, 0, 1, 1, 0, 1, 0};
static const double weights[N] = {1, 1, 1, 1, 1, 1, 1, 1, 0};

static void fill(const int *predicted, const double *weight, double sums[N][MODEL_SUMS])
{
    memset(sums, 0, N * sizeof *sums);
    for (int i = 0; i < N; i++) {
        sums[i][LOSS] = weight[i] * (0.3 + 0.1 * i + (predicted[i] == labels[i] ? 0 : 0.7));
        sums[i][CORRECT] = predicted[i] == labels[i] ? weight[i] : 0;
        sums[i][COUNT] = weight[i];
        sums[i][TRUE_POSITIVES] = predicted[i] == 1 && labels[i] == 1 ? weight[i] : 0;
        sums[i][FALSE_POSITIVES] = predicted[i] == 1 && labels[i] == 0 ? weight[i] : 0;
        sums[i][FALSE_NEGATIVES] = predicted[i] == 0 && labels[i] == 1 ? weight[i] : 0;
    }
}

/* The textbook's paired mean: of `better` examples that the first model alone gets right and `worse` that the
   second alone gets right, among n. */
static void means_have_the_paired_standard_error(void **state)
{
    (void)state;
    struct small_run small;
    struct model *model = classifier(&small, 2);
    double a[N][MODEL_SUMS], b[N][MODEL_SUMS];
    struct comparison found;
    fill(first, weights, a);
    fill(second, weights, b);
    paired_test(model, a[0], model, b[0], N, &found);
    assert_int_equal(found.examples, N);
    assert_int_equal(found.count, 4); /* accuracy, f1, matthews, loss */
    double n = 8, better = 4, worse = 1, mean = (better - worse) / n;
    double error = sqrt((better + worse - n * mean * mean) / (n - 1) / n);
    const struct metric_difference *accuracy = difference_named(&found, "accuracy");
    check_near(accuracy->value, 7 / n, 1e-15, "accuracy");
    check_near(accuracy->other, 4 / n, 1e-15, "the other accuracy");
    check_near(accuracy->difference, mean, 1e-15, "difference");
    check_near(accuracy->standard_error, error, 1e-14, "standard error");
    check_near(accuracy->z, mean / error, 1e-12, "z");
    const struct metric_difference *loss = difference_named(&found, "loss");
    check_near(loss->difference, -0.7 * mean, 1e-14, "difference of losses");
    check_near(loss->standard_error, 0.7 * error, 1e-14, "standard error of losses");
    check_near(loss->z, mean / error, 1e-12, "a smaller loss is a gain");
    /* The integral of the normal density from z on, by Simpson's rule. */
    double tail = 0, step = 1e-3;
    for (int i = 0; i <= 12000; i++) {
        double x = accuracy->z + i * step;
        tail += (i == 0 || i == 12000 ? 1 : i % 2 == 1 ? 4 : 2) * exp(-x * x / 2) * step / 3;
    }
    check_near(accuracy->p, tail / sqrt(2 * 3.14159265358979323846), 1e-9, "p");
    assert_true(loss->p == accuracy->p || fabs(loss->p - accuracy->p) < 1e-9);
    model_free(&small.host, model);
    small_run_free(&small);
}

static double f1_of(const int *predicted, int without)
{
    double twice = 0, wrong = 0;
    for (int i = 0; i < N - 1; i++) {
        twice += i != without && predicted[i] == 1 && labels[i] == 1 ? 2 : 0;
        wrong += i != without && predicted[i] != labels[i] ? 1 : 0;
    }
    return twice / (twice + wrong);
}

/* Metrics that are no means, and means with weights. */
static void other_metrics_have_that_of_the_jackknife(void **state)
{
    (void)state;
    struct small_run small;
    struct model *model = classifier(&small, 2);
    double a[N][MODEL_SUMS], b[N][MODEL_SUMS], left[N - 1], mean = 0, squares = 0;
    struct comparison found;
    fill(first, weights, a);
    fill(second, weights, b);
    paired_test(model, a[0], model, b[0], N, &found);
    for (int i = 0; i < N - 1; i++)
        mean += (left[i] = f1_of(first, i) - f1_of(second, i)) / (N - 1);
    for (int i = 0; i < N - 1; i++)
        squares += (left[i] - mean) * (left[i] - mean);
    const struct metric_difference *f1 = difference_named(&found, "f1");
    check_near(f1->difference, f1_of(first, -1) - f1_of(second, -1), 1e-14, "F1");
    check_near(f1->standard_error, sqrt((N - 2.0) / (N - 1) * squares), 1e-14, "standard error of F1");

    static const double uneven[N] = {1, 4, 2, 1, 3, 1, 5, 2, 0};
    fill(first, uneven, a);
    fill(second, uneven, b);
    paired_test(model, a[0], model, b[0], N, &found);
    double all = 0, total = 0;
    for (int i = 0; i < N; i++) {
        all += uneven[i];
        total += uneven[i] * ((first[i] == labels[i]) - (second[i] == labels[i]));
    }
    mean = squares = 0;
    for (int i = 0; i < N - 1; i++) {
        double own = uneven[i] * ((first[i] == labels[i]) - (second[i] == labels[i]));
        left[i] = (total - own) / (all - uneven[i]);
        mean += left[i] / (N - 1);
    }
    for (int i = 0; i < N - 1; i++)
        squares += (left[i] - mean) * (left[i] - mean);
    const struct metric_difference *accuracy = difference_named(&found, "accuracy");
    check_near(accuracy->difference, total / all, 1e-14, "a weighted accuracy");
    check_near(accuracy->standard_error, sqrt((N - 2.0) / (N - 1) * squares), 1e-14, "its standard error");
    model_free(&small.host, model);
    small_run_free(&small);
}

static void extremes_have_a_result(void **state)
{
    (void)state;
    struct small_run small, other;
    struct model *model = classifier(&small, 2);
    double a[N][MODEL_SUMS], b[N][MODEL_SUMS];
    struct comparison found;
    fill(first, weights, a);
    paired_test(model, a[0], model, a[0], N, &found);
    for (size_t i = 0; i < found.count; i++) { /* a model against itself */
        const struct metric_difference *same = &found.list[i];
        assert_true(same->difference == 0 && same->standard_error == 0 && same->z == 0 && same->p == 0.5);
    }
    int wrong[N];
    for (int i = 0; i < N; i++)
        wrong[i] = 1 - labels[i];
    fill(labels, weights, a);
    fill(wrong, weights, b);
    paired_test(model, a[0], model, b[0], N, &found);
    const struct metric_difference *accuracy = difference_named(&found, "accuracy");
    assert_true(accuracy->difference == 1 && accuracy->standard_error == 0 && accuracy->z == INFINITY &&
                accuracy->p == 0);
    paired_test(model, b[0], model, a[0], N, &found);
    accuracy = difference_named(&found, "accuracy");
    assert_true(accuracy->z == -INFINITY && accuracy->p == 1);
    paired_test(model, a[0], model, b[0], 1, &found);
    accuracy = difference_named(&found, "accuracy");
    assert_true(accuracy->difference == 1 && isnan(accuracy->standard_error) && isnan(accuracy->p));

    /* Of a model with 16 classes, which has no F1. */
    struct model *many = classifier(&other, 16);
    paired_test(many, a[0], model, b[0], N, &found);
    assert_int_equal(found.count, 2);
    check_near(difference_named(&found, "loss")->difference, -0.7, 1e-14, "loss");
    model_free(&other.host, many);
    small_run_free(&other);
    model_free(&small.host, model);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_have_the_paired_standard_error),
        cmocka_unit_test(other_metrics_have_that_of_the_jackknife),
        cmocka_unit_test(extremes_have_a_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
