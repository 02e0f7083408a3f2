/* How often each label is right, wrong and missed, and the F1 that follow, against counts of the predictions
   by hand: of classify, where an example has one label, and of label_set, where it has any number. Planted
   and caught: a wrong prediction counted for the label that was right; missed and wrong exchanged; targets of
   weight 0 counted; a label that neither occurs nor is predicted in the mean; F1 of the positive label that
   counts all labels; of another label; a threshold of 0.4.
   Covers: classify.c label_set.c objective.c
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "objectives/objective.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 8, LABELS = 6, EXAMPLES = 48, EACH = 3, UNUSED = 5 };

struct labels_test {
    struct layer_test base;
    const struct objective *objective;
    void *self, *memory;
    size_t offsets[EXAMPLES + 1];
    uint32_t ids[EXAMPLES];
    float has[EXAMPLES * LABELS], weights[EXAMPLES], chances[EXAMPLES * LABELS];
    struct targets targets;
    struct rows rows;
    float *x;
    struct objective_pass pass;
};

/* Label UNUSED is no target; its probability is made small below. positive: from 1; 0: none. */
static void open_test(struct labels_test *t, const char *name, size_t positive)
{
    memset(t, 0, sizeof *t);
    layer_test_open(&t->base, 2);
    t->objective = objective_find(name);
    struct host *host = &t->base.host;
    const struct objective_facts facts = {
        .dim = DIM, .num_outputs = LABELS, .positive = positive, .max_len = EACH, .norm_epsilon = 1e-5};
    assert_null(t->objective->refuse(&facts));
    t->self = calloc(1, t->objective->size);
    check_status(host, t->objective->describe(host, &t->base.params, &facts, t->self), HASHATTN_OK, NULL);
    layer_test_start(&t->base, 3);
    const struct param *bias = param_named(&t->base.params, "classifier.out_proj.bias");
    t->base.values[bias->offset + UNUSED] = -1000;
    for (size_t i = 0; i < EXAMPLES; i++) {
        t->offsets[i + 1] = t->offsets[i] + EACH;
        t->ids[i] = (uint32_t)((i * i + i / 3) % UNUSED);
        t->weights[i] = i % 4 == 1 ? 0 : i % 2 == 0 ? 1 : 0.5f;
        for (size_t k = 0; k < UNUSED; k++)
            t->has[i * LABELS + k] = (i * (k + 2) + i / 5) % 3 == 0 ? 1 : 0;
    }
    t->rows = rows_of(t->base.kernels, t->base.pool, EXAMPLES, t->offsets, NULL);
    t->targets = (struct targets){.ids = t->ids, .floats = t->has, .weights = t->weights};
    t->x = new_normals(9, t->rows.padded * DIM, 1);
    size_t bytes = t->objective->memory_size(t->self, &t->rows, false);
    t->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    t->pass = (struct objective_pass){.self = t->self,
                                      .rows = &t->rows,
                                      .values = layer_test_pack(&t->base, true),
                                      .targets = &t->targets,
                                      .x = t->x,
                                      .weight = 1,
                                      .count = EXAMPLES,
                                      .memory = t->memory};
    t->objective->forward(&t->pass);
    t->objective->predict(&t->pass, t->chances);
}

static void close_test(struct labels_test *t)
{
    layer_test_close(&t->base);
    free(t->self);
    free(t->memory);
    free(t->x);
}

static bool predicted(const struct labels_test *t, size_t i, size_t k)
{
    const float *row = t->chances + i * LABELS;
    if (t->objective->type == TARGET_FLOATS)
        return row[k] > 0.5f;
    for (size_t other = 0; other < LABELS; other++)
        if (row[other] > row[k])
            return false;
    return true;
}

static bool is(const struct labels_test *t, size_t i, size_t k)
{
    return t->objective->type == TARGET_FLOATS ? t->has[i * LABELS + k] > 0 : t->ids[i] == k;
}

static double f1_of(const double *weights)
{
    double precision = weights[0] / (weights[0] + weights[1]),
           recall = weights[0] / (weights[0] + weights[2]);
    return weights[0] == 0 ? 0 : 2 * precision * recall / (precision + recall);
}

static double metric_named(const struct labels_test *t, const char *name, const double *sums)
{
    const struct metric *m = t->objective->metrics;
    while (strcmp(m->name, name) != 0)
        m++;
    return m->value(t->self, sums);
}

static void check_counts(const char *name, size_t positive, bool weighted)
{
    struct labels_test t;
    size_t want[LABELS * 3] = {0}, found[LABELS * LABEL_COUNTS] = {0}, least = EXAMPLES;
    double weights[LABELS * 3] = {0}, all[3] = {0}, macro = 0, sums[OBJECTIVE_SUMS] = {0}, value;
    open_test(&t, name, positive);
    t.targets.weights = weighted ? t.weights : NULL;
    for (size_t i = 0; i < EXAMPLES; i++)
        for (size_t k = 0; k < LABELS; k++) {
            double weight = weighted ? (double)t.weights[i] : 1;
            bool guess = predicted(&t, i, k), truth = is(&t, i, k);
            if (weight == 0 || (!guess && !truth))
                continue;
            size_t at = guess && truth ? 0 : guess ? 1 : 2; /* LABEL_RIGHT, LABEL_WRONG, LABEL_MISSED */
            want[3 * k + at]++;
            weights[3 * k + at] += weight;
            all[at] += weight;
        }
    for (size_t k = 0; k < UNUSED; k++) {
        macro += f1_of(weights + 3 * k) / UNUSED;
        least = size_min(least, want[3 * k] + want[3 * k + 1] + want[3 * k + 2]);
    }
    assert_true(least > 0); /* otherwise the mean is of fewer labels */
    t.objective->count_labels(&t.pass, found);
    check_same_bits(found, want, sizeof want, "counts of labels");
    t.objective->count_labels(&t.pass, found); /* adds */
    assert_int_equal(found[0], 2 * want[0]);
    check_status(&t.base.host,
                 t.objective->overall[0].value(&t.base.host, t.self, &t.targets, t.chances, EXAMPLES, &value),
                 HASHATTN_OK, NULL);
    assert_string_equal(t.objective->overall[0].name, "macro_f1");
    check_near(value, macro, 1e-12, "macro-F1");
    t.objective->count(&t.pass, sums);
    if (positive > 0)
        check_near(metric_named(&t, "f1", sums), f1_of(weights + 3 * (positive - 1)), 1e-12, "F1");
    else if (t.objective->type == TARGET_FLOATS)
        check_near(metric_named(&t, "f1", sums), f1_of(all), 1e-12, "micro-F1");
    else
        assert_true(isnan(metric_named(&t, "f1", sums))); /* of six classes there is none */
    close_test(&t);
}

static void labels_are_counted_as_by_hand(void **state)
{
    (void)state;
    for (size_t positive = 0; positive <= UNUSED; positive++)
        for (int weighted = 0; weighted < 2; weighted++) {
            check_counts("classify", positive, weighted != 0);
            check_counts("label_set", positive, weighted != 0);
        }
}

static void the_positive_label_must_exist(void **state)
{
    (void)state;
    const struct objective_facts facts = {.dim = DIM, .num_outputs = LABELS, .positive = LABELS + 1};
    assert_non_null(strstr(objective_find("classify")->refuse(&facts), "positive class"));
    assert_non_null(strstr(objective_find("label_set")->refuse(&facts), "positive label"));
}

static void without_labels_there_is_no_mean(void **state)
{
    (void)state;
    const double none[2 * LABEL_COUNTS] = {0}, one[2 * LABEL_COUNTS] = {[LABEL_RIGHT] = 3, [LABEL_WRONG] = 1};
    assert_true(isnan(label_macro_f1(none, 2)));
    check_near(label_macro_f1(one, 2), 6.0 / 7, 1e-15, "mean of one label");
    check_near(label_f1(none), 0, 0, "F1 of nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_counted_as_by_hand),
        cmocka_unit_test(the_positive_label_must_exist),
        cmocka_unit_test(without_labels_there_is_no_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
