/* F1, Matthews', Pearson's and Spearman's values against scikit-learn 1.9.1 and SciPy 1.17.1, on counts and
   numbers with many ties; constant sides; targets without weight. The sums come from the objectives' own
   counting, on outputs that a head without weights gives as its bias. Covers: classify.c regress.c. Bugs
   planted and caught: false positives and false negatives exchanged in the counts; F1 of the first class;
   true negatives from the count without the errors; ranks of ties not shared; ranks of targets for
   predictions; targets of weight 0 ranked; a constant side giving NaN; a correlation without the means.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/outputs/pooled_head.h"
#include "objectives/objective.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 4, MOST = 24 };

/* An objective on one sequence of one row, whose outputs are the biases of its last layer. */
struct shown {
    struct layer_test base;
    const struct objective *objective;
    _Alignas(16) char self[sizeof(struct pooled_head) + 64];
    size_t offsets[2], outputs;
    struct rows rows;
    float x[ROW_STEP * DIM];
    void *memory;
    double sums[OBJECTIVE_SUMS];
};

static void shown_open(struct shown *s, const char *name, size_t outputs)
{
    memset(s, 0, sizeof *s);
    layer_test_open(&s->base, 1);
    s->objective = objective_find(name);
    s->offsets[1] = 1;
    s->outputs = outputs;
    s->rows = rows_of(s->base.kernels, s->base.pool, 1, s->offsets, NULL);
    const struct objective_facts facts = {.dim = DIM, .num_outputs = outputs, .max_len = 1};
    assert_true(s->objective->size <= sizeof s->self && s->rows.padded == ROW_STEP);
    check_status(&s->base.host, s->objective->describe(&s->base.host, &s->base.params, &facts, &s->self),
                 HASHATTN_OK, NULL);
    layer_test_start(&s->base, 1);
    memset(s->base.values, 0, s->base.params.total * sizeof(float));
    s->memory = aligned_alloc(64, (s->objective->memory_size(&s->self, &s->rows, false) + 63) / 64 * 64);
}

static void shown_close(struct shown *s)
{
    free(s->memory);
    layer_test_close(&s->base);
}

/* Counts an example with these outputs. */
static void count(struct shown *s, const float *outputs, const struct targets *targets)
{
    const struct param *bias = param_named(&s->base.params, "classifier.out_proj.bias");
    memcpy(s->base.values + bias->offset, outputs, s->outputs * sizeof *outputs);
    struct objective_pass pass = {.self = &s->self,
                                  .rows = &s->rows,
                                  .values = layer_test_pack(&s->base, false),
                                  .targets = targets,
                                  .x = s->x,
                                  .weight = 1,
                                  .count = 1,
                                  .memory = s->memory};
    s->objective->forward(&pass);
    s->objective->count(&pass, s->sums);
}

static double metric_of(const struct shown *s, const char *name)
{
    const struct metric *m = s->objective->metrics;
    while (strcmp(m->name, name) != 0)
        m++;
    return m->value(&s->self, s->sums);
}

static void counts_of_two_classes(void **state)
{
    (void)state;
    /* true and false positives, false and true negatives; f1_score, matthews_corrcoef */
    static const struct {
        int tp, fp, fn, tn;
        double f1, matthews;
    } cases[] = {{40, 7, 5, 30, 0.86956521739130432, 0.70394034276372031},
                 {3, 0, 0, 9, 1, 1},
                 {0, 0, 4, 6, 0, 0},
                 {0, 3, 0, 5, 0, 0},
                 {5, 0, 0, 0, 1, 0},
                 {1, 2, 3, 4, 0.2857142857142857, -0.089087080637474794},
                 {276, 126, 3, 3, 0.81057268722466957, 0.048297750676598916},
                 {17, 1, 0, 2, 0.97142857142857142, 0.79349204761587222}};
    static const float guesses[2][2] = {{1, -1}, {-1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct shown s;
        shown_open(&s, "classify", 2);
        assert_true(isnan(metric_of(&s, "f1")) && isnan(metric_of(&s, "matthews")));
        const int numbers[2][2] = {{cases[c].tn, cases[c].fn}, {cases[c].fp, cases[c].tp}};
        for (int guess = 0; guess < 2; guess++)
            for (uint32_t label = 0; label < 2; label++) {
                const float half = 0.5f, none = 0;
                const struct targets plain = {.ids = &label}, halved = {.ids = &label, .weights = &half},
                                     without = {.ids = &label, .weights = &none};
                count(&s, guesses[guess], &without);
                for (int i = 0; i < numbers[guess][label]; i++) {
                    if (i > 0) {
                        count(&s, guesses[guess], &plain);
                        continue;
                    }
                    count(&s, guesses[guess], &halved); /* two halves are a whole */
                    count(&s, guesses[guess], &halved);
                }
            }
        /* Exchanging the two kinds of errors changes neither metric. */
        check_near(s.sums[3], cases[c].tp, 0, "true positives");
        check_near(s.sums[4], cases[c].fp, 0, "false positives");
        check_near(s.sums[5], cases[c].fn, 0, "false negatives");
        check_near(metric_of(&s, "f1"), cases[c].f1, 1e-15, "f1");
        check_near(metric_of(&s, "matthews"), cases[c].matthews, 1e-15, "matthews");
        shown_close(&s);
    }
}

static const float outputs[MOST] = {1,     1.875f, 4,      2,     1,       2.625f, 1.375f, 1.125f,
                                    3,     1.625f, 1.875f, 2.5f,  -0.125f, 2.875f, 1.75f,  1.75f,
                                    1.75f, 2.75f,  2,      0.75f, 1,       2.875f, 2.5f,   2.125f};
static const float targets[MOST] = {0.4f, 1.2f, 4,    3,    0.4f, 2.2f, 2.4f, 0.8f, 3.6f, 0.6f, 2,    2.6f,
                                    2.2f, 3,    3.6f, 4.8f, 1.4f, 3.2f, 3.4f, 1.4f, 0,    4.8f, 1.4f, 1.6f};

static double spearman_of(const struct shown *s, const struct targets *of, const float *predicted, size_t n)
{
    struct host host;
    double value;
    host_init(&host);
    assert_string_equal(s->objective->overall[0].name, "spearman");
    check_status(&host, s->objective->overall[0].value(&host, &s->self, of, predicted, n, &value),
                 HASHATTN_OK, NULL);
    return value;
}

static void correlations_of_numbers(void **state)
{
    (void)state;
    struct shown s;
    shown_open(&s, "regress", 1);
    assert_true(isnan(metric_of(&s, "pearson")) && isnan(metric_of(&s, "loss")));
    double loss = 0;
    for (size_t i = 0; i < MOST; i++) {
        const float weight = i % 2 == 0 ? 1 : 0.5f, none = 0, far = 1000;
        const struct targets of = {.floats = &targets[i], .weights = &weight},
                             nothing = {.floats = &far, .weights = &none};
        count(&s, &outputs[i], &nothing);
        for (int k = 0; k < (i % 2 == 0 ? 1 : 2); k++)
            count(&s, &outputs[i], &of);
        loss += pow((double)outputs[i] - (double)targets[i], 2) / MOST;
    }
    check_near(metric_of(&s, "loss"), loss, 1e-14, "loss");
    check_near(metric_of(&s, "pearson"), 0.57792944279307545, 1e-13, "pearson");
    const struct targets all = {.floats = targets};
    check_near(spearman_of(&s, &all, outputs, MOST), 0.63703879144971298, 1e-14, "spearman");
    /* Half of a longer list has no weight. */
    float more[2 * MOST], of_more[2 * MOST], weights[2 * MOST];
    for (size_t i = 0; i < MOST; i++) {
        more[2 * i] = outputs[i];
        of_more[2 * i] = targets[i];
        weights[2 * i] = 1;
        more[2 * i + 1] = (float)i;
        of_more[2 * i + 1] = NAN;
        weights[2 * i + 1] = 0;
    }
    const struct targets half = {.floats = of_more, .weights = weights};
    check_near(spearman_of(&s, &half, more, 2 * MOST), 0.63703879144971298, 1e-14, "spearman with weights");
    const struct targets none = {.floats = of_more, .weights = weights + 1};
    assert_true(isnan(spearman_of(&s, &none, more, 1)));
    shown_close(&s);
}

/* A model that always predicts the same has no correlation, and an order turned round has -1. */
static void constants_and_orders(void **state)
{
    (void)state;
    struct shown s;
    shown_open(&s, "regress", 1);
    const float same = 0.1f;
    float predicted[MOST];
    const struct targets all = {.floats = targets};
    for (size_t i = 0; i < MOST; i++) {
        const struct targets of = {.floats = &targets[i]};
        predicted[i] = same;
        count(&s, &same, &of);
    }
    check_near(metric_of(&s, "pearson"), 0, 0, "pearson of a constant");
    check_near(spearman_of(&s, &all, predicted, MOST), 0, 0, "spearman of a constant");
    for (size_t i = 0; i < MOST; i++)
        predicted[i] = -expf(targets[i]);
    check_near(spearman_of(&s, &all, predicted, MOST), -1, 1e-15, "spearman of the reverse order");
    check_near(spearman_of(&s, &all, targets, MOST), 1, 1e-15, "spearman of itself");
    shown_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_two_classes),
        cmocka_unit_test(correlations_of_numbers),
        cmocka_unit_test(constants_and_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
