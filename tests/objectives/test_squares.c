/* Forecasts of several values: predictions, losses, metrics and gradients of `horizon`, `dlinear`,
   `naive` and `decoded` against plain formulas in double precision, on sequences that fill the window and on
   a shorter one; the same of quantiles. Bugs planted and caught: a short sequence at the beginning of its
   window; the error of an example summed instead of averaged over its values; the gradient not divided by
   their number; squares as absolute errors; a moving average without repeated ends, or over 23 values; the
   trend left in the rest; the map of the rest left out of the sum; predictions of the wrong example; a
   gradient of rows in the wrong sequence; the slope of a quantile of the wrong sign; the level of the
   neighbour; the metrics of the lowest quantile; coverage of one side only; metrics of levels that cross,
   which a forecast puts in order.
   Covers: horizon.c dlinear.c naive.c squares.c decoded.c
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objectives/squares.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 12, LONGEST = 4, WIDTH = DIM * LONGEST, OUTPUTS = 6, DECODED = 2, EXAMPLES = 3, AVERAGED = 25 };
static const size_t offsets[EXAMPLES + 1] = {0, 4, 6, 10}; /* the second is shorter */

struct fixture {
    struct layer_test base;
    const struct objective *objective;
    void *self, *memory;
    struct rows rows;
    float *x, *dx, wanted[EXAMPLES * OUTPUTS], weights[EXAMPLES];
    struct targets targets;
    struct objective_pass pass;
};

enum { LEVELS = 3, POINT = 1 };
static const double levels[LEVELS] = {0.1, 0.6, 0.9};

static void open_fixture(struct fixture *f, const char *name, size_t num_quantiles)
{
    memset(f, 0, sizeof *f);
    layer_test_open(&f->base, 2);
    layer_test_shift(&f->base);
    f->objective = objective_find(name);
    f->rows = rows_of(f->base.kernels, f->base.pool, EXAMPLES, offsets, NULL);
    const struct objective_facts facts = {.dim = DIM,
                                          .num_outputs = OUTPUTS,
                                          .max_len = LONGEST,
                                          .decoded_rows = DECODED,
                                          .quantiles = {num_quantiles, {levels[0], levels[1], levels[2]}}};
    f->self = calloc(1, f->objective->size);
    check_status(&f->base.host, f->objective->describe(&f->base.host, &f->base.params, &facts, f->self),
                 HASHATTN_OK, NULL);
    layer_test_start(&f->base, 5);
    f->x = new_normals(1, f->rows.padded * DIM, 1);
    memset(f->x + f->rows.count * DIM, 0, (f->rows.padded - f->rows.count) * DIM * sizeof *f->x);
    f->dx = new_zeros(f->rows.padded * DIM);
    float *wanted = new_normals(2, EXAMPLES * OUTPUTS, 1);
    memcpy(f->wanted, wanted, sizeof f->wanted);
    free(wanted);
    for (size_t i = 0; i < EXAMPLES; i++)
        f->weights[i] = 1 + 0.5f * (float)i;
    f->targets = (struct targets){.floats = f->wanted, .weights = f->weights};
    size_t bytes = f->objective->memory_size(f->self, &f->rows, true);
    f->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(f->memory, 0xff, bytes);
    f->pass = (struct objective_pass){.self = f->self,
                                      .rows = &f->rows,
                                      .values = layer_test_pack(&f->base, true),
                                      .targets = &f->targets,
                                      .x = f->x,
                                      .training = true,
                                      .weight = 0.7,
                                      .count = 20,
                                      .memory = f->memory};
}

static void close_fixture(struct fixture *f)
{
    free(f->self), free(f->memory), free(f->x), free(f->dx);
    layer_test_close(&f->base);
}

/* The window of an example, after zeros if it is short. */
static void window_of(const struct fixture *f, size_t example, double window[WIDTH])
{
    size_t first = offsets[example] * DIM, n = (offsets[example + 1] - offsets[example]) * DIM;
    for (size_t i = 0; i < WIDTH; i++)
        window[i] = i < WIDTH - n ? 0 : (double)f->x[first + i - (WIDTH - n)];
}

/* Adds to y the dense layer `name` of a window, with the values of the fixture. */
static void add_dense(const struct fixture *f, const char *name, const double *window, double y[OUTPUTS])
{
    char tensor[60];
    snprintf(tensor, sizeof tensor, "%s.weight", name);
    const float *weight = f->base.values + param_named(&f->base.params, tensor)->offset;
    snprintf(tensor, sizeof tensor, "%s.bias", name);
    const float *bias = f->base.values + param_named(&f->base.params, tensor)->offset;
    for (size_t k = 0; k < OUTPUTS; k++) {
        y[k] += (double)bias[k];
        for (size_t i = 0; i < WIDTH; i++)
            y[k] += (double)weight[k * WIDTH + i] * window[i];
    }
}

/* The same of each of the last rows, for a part of the outputs. */
static void decode(const struct fixture *f, size_t example, double y[OUTPUTS])
{
    enum { EACH = OUTPUTS / DECODED };
    const float *weight = f->base.values + param_named(&f->base.params, "decoded.dense.weight")->offset,
                *bias = f->base.values + param_named(&f->base.params, "decoded.dense.bias")->offset,
                *x = f->x + (offsets[example + 1] - DECODED) * DIM;
    for (size_t k = 0; k < OUTPUTS; k++) {
        y[k] = (double)bias[k % EACH];
        for (size_t c = 0; c < DIM; c++)
            y[k] += (double)weight[k % EACH * DIM + c] * (double)x[k / EACH * DIM + c];
    }
}

static void want_prediction(const struct fixture *f, size_t example, double y[OUTPUTS])
{
    double window[WIDTH], trend[WIDTH], rest[WIDTH];
    memset(y, 0, OUTPUTS * sizeof *y);
    window_of(f, example, window);
    if (strcmp(f->objective->name, "horizon") == 0)
        add_dense(f, "horizon.dense", window, y);
    if (strcmp(f->objective->name, "decoded") == 0)
        decode(f, example, y);
    if (strcmp(f->objective->name, "dlinear") != 0)
        return;
    for (int i = 0; i < WIDTH; i++) {
        trend[i] = 0;
        for (int k = i - AVERAGED / 2; k <= i + AVERAGED / 2; k++)
            trend[i] += window[k < 0 ? 0 : k >= WIDTH ? WIDTH - 1 : k] / AVERAGED;
        rest[i] = window[i] - trend[i];
    }
    add_dense(f, "dlinear.trend", trend, y);
    add_dense(f, "dlinear.rest", rest, y);
}

/* Sums of squared and absolute errors, each with its weight. */
static void want_sums(const struct fixture *f, double *squared, double *absolute)
{
    *squared = *absolute = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        double y[OUTPUTS];
        want_prediction(f, i, y);
        for (size_t k = 0; k < OUTPUTS; k++) {
            double off = y[k] - (double)f->wanted[i * OUTPUTS + k];
            *squared += (double)f->weights[i] * off * off / OUTPUTS;
            *absolute += (double)f->weights[i] * fabs(off) / OUTPUTS;
        }
    }
}

static const char *const names[] = {"horizon", "dlinear", "naive", "decoded"};
enum { NAMES = sizeof names / sizeof *names };

static void predictions_and_errors_are_those_of_the_formula(void **state)
{
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        struct fixture f;
        double sums[OBJECTIVE_SUMS] = {0}, squared, absolute, y[OUTPUTS];
        float got[EXAMPLES * OUTPUTS];
        open_fixture(&f, names[n], 0);
        assert_int_equal(f.objective->outputs(f.self), OUTPUTS);
        double loss = f.objective->forward(&f.pass);
        f.objective->predict(&f.pass, got);
        f.objective->count(&f.pass, sums);
        want_sums(&f, &squared, &absolute);
        for (size_t i = 0; i < EXAMPLES; i++) {
            want_prediction(&f, i, y);
            check_near_all(got + i * OUTPUTS, y, OUTPUTS, 1e-5, names[n]);
        }
        check_near(loss, squared, 1e-5 * squared, "loss");
        const struct metric *m = f.objective->metrics;
        assert_string_equal(m[0].name, "mse");
        assert_string_equal(m[1].name, "mae");
        double weights = 1 + 1.5 + 2;
        check_near(m[0].value(f.self, sums), squared / weights, 1e-5 * squared, "mse");
        check_near(m[1].value(f.self, sums), absolute / weights, 1e-5 * absolute, "mae");
        check_near(m[2].value(f.self, sums), squared / weights, 1e-5 * squared, "loss as a metric");
        close_fixture(&f);
    }
}

/* The training loss of the formula, for differences. */
static double training_loss(const struct fixture *f)
{
    double squared, absolute;
    want_sums(f, &squared, &absolute);
    return f->pass.weight / f->pass.count * squared;
}

static void check_differences(struct fixture *f, float *values, const float *gradient, size_t count,
                              size_t apart, const char *what)
{
    for (size_t i = 0; i < count; i += apart) {
        float kept = values[i];
        double side[2];
        for (int s = 0; s < 2; s++) {
            values[i] = kept + (s == 0 ? -0.125f : 0.125f); /* exact: the loss is a square */
            side[s] = training_loss(f);
        }
        values[i] = kept;
        check_near((double)gradient[i], (side[1] - side[0]) / 0.25, 1e-5, what);
    }
}

static void gradients_are_those_of_the_formula(void **state)
{
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        struct fixture f;
        open_fixture(&f, names[n], 0);
        f.objective->forward(&f.pass);
        f.objective->backward(&f.pass, whole_gradient(&f.base), f.objective->bare ? NULL : f.dx, false);
        for (size_t i = 0; i < f.base.params.num_rows; i++) {
            const struct param *row = &f.base.params.rows[i];
            check_differences(&f, f.base.values + row->offset, f.base.gradients + row->offset, row->count, 7,
                              row->name);
        }
        if (!f.objective->bare)
            check_differences(&f, f.x, f.dx, f.rows.count * DIM, 5, "rows");
        close_fixture(&f);
    }
}

static int ascending(const void *a, const void *b)
{
    return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b);
}

/* Sums of the metrics, of levels in ascending order. */
struct quantile_sums {
    double squared, absolute, covered, losses;
};

/* The mean quantile loss of the predictions as they are, and the sums of the metrics. */
static double want_quantiles(const struct fixture *f, const float *got, struct quantile_sums *sums)
{
    double losses = 0;
    *sums = (struct quantile_sums){.losses = 0};
    for (size_t i = 0; i < EXAMPLES; i++)
        for (size_t k = 0; k < OUTPUTS; k++) {
            const float *raw = got + (i * OUTPUTS + k) * LEVELS;
            float y[LEVELS];
            memcpy(y, raw, sizeof y);
            qsort(y, LEVELS, sizeof *y, ascending);
            double target = (double)f->wanted[i * OUTPUTS + k], weight = (double)f->weights[i] / OUTPUTS;
            for (size_t q = 0; q < LEVELS; q++) {
                double off = target - (double)raw[q], of_order = target - (double)y[q];
                losses += weight / LEVELS * fmax(levels[q] * off, (levels[q] - 1) * off);
                sums->losses += weight / LEVELS * fmax(levels[q] * of_order, (levels[q] - 1) * of_order);
            }
            sums->squared += weight * pow(target - (double)y[POINT], 2);
            sums->absolute += weight * fabs(target - (double)y[POINT]);
            sums->covered += (double)y[0] <= target && target <= (double)y[LEVELS - 1] ? weight : 0;
        }
    return losses;
}

/* The loss is linear between kinks, so differences of the parameters are exact. */
static void check_biases(struct fixture *f, const char *name)
{
    float got[EXAMPLES * OUTPUTS * LEVELS];
    struct quantile_sums unused;
    for (size_t r = 0; r < f->base.params.num_rows; r++) {
        const struct param *row = &f->base.params.rows[r];
        if (strstr(row->name, "bias") == NULL)
            continue;
        for (size_t i = 0; i < row->count; i++) {
            float *value = f->base.values + row->offset + i, kept = *value;
            double side[2];
            for (int s = 0; s < 2; s++) {
                *value = kept + (s == 0 ? -1.0f / 1024 : 1.0f / 1024);
                f->pass.values = layer_test_pack(&f->base, true);
                f->objective->forward(&f->pass);
                f->objective->predict(&f->pass, got);
                side[s] = want_quantiles(f, got, &unused);
            }
            *value = kept;
            check_near((double)f->base.gradients[row->offset + i],
                       f->pass.weight / f->pass.count * (side[1] - side[0]) * 512, 1e-4, name);
        }
    }
}

static void quantiles_are_those_of_the_formula(void **state)
{
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        struct fixture f;
        double sums[OBJECTIVE_SUMS] = {0};
        struct quantile_sums by_hand;
        float got[EXAMPLES * OUTPUTS * LEVELS];
        if (strcmp(names[n], "naive") == 0)
            continue;
        open_fixture(&f, names[n], LEVELS);
        assert_int_equal(f.objective->outputs(f.self), OUTPUTS * LEVELS);
        double loss = f.objective->forward(&f.pass);
        f.objective->predict(&f.pass, got);
        f.objective->count(&f.pass, sums);
        double want = want_quantiles(&f, got, &by_hand), weights = 1 + 1.5 + 2;
        assert_true(by_hand.losses < want * 0.999); /* some levels cross */
        const struct metric *m = f.objective->metrics;
        check_near(loss, want, 1e-5 * want, "loss");
        check_near(m[0].value(f.self, sums), by_hand.squared / weights, 1e-5 * by_hand.squared, "mse");
        check_near(m[1].value(f.self, sums), by_hand.absolute / weights, 1e-5 * by_hand.absolute, "mae");
        check_near(m[2].value(f.self, sums), by_hand.losses / weights, 1e-5 * want, "loss as a metric");
        assert_string_equal(m[3].name, "coverage");
        check_near(m[3].value(f.self, sums), by_hand.covered / weights, 1e-6, "coverage");
        f.objective->backward(&f.pass, whole_gradient(&f.base), f.objective->bare ? NULL : f.dx, false);
        check_biases(&f, names[n]);
        close_fixture(&f);
    }
    struct fixture f;
    open_fixture(&f, "horizon", 0);
    double none[OBJECTIVE_SUMS] = {0};
    assert_true(isnan(f.objective->metrics[3].value(f.self, none)));
    assert_true(isnan(f.objective->metrics[3].value(f.self, NULL))); /* it does not have the metric */
    close_fixture(&f);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        struct objective_facts facts = {
            .dim = DIM, .num_outputs = OUTPUTS, .max_len = LONGEST, .decoded_rows = DECODED};
        const struct objective *objective = objective_find(names[n]);
        assert_null(objective->refuse(&facts));
        facts.num_outputs = 0;
        assert_non_null(strstr(objective->refuse(&facts), "no floats"));
        facts.num_outputs = DECODED;
        facts.pairs = true;
        assert_non_null(strstr(objective->refuse(&facts), "one sequence"));
    }
    static const double bad[][2] = {{0, 0.5}, {0.5, 1}, {0.5, 0.5}, {0.6, 0.4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct objective_facts facts = {.num_outputs = 1, .quantiles = {2, {bad[i][0], bad[i][1]}}};
        assert_non_null(strstr(objective_find("horizon")->refuse(&facts), "`quantiles` must ascend"));
    }
    const struct objective_facts idle = {.num_outputs = 1, .quantiles = {LEVELS, {0.1, 0.6, 0.9}}};
    assert_non_null(strstr(objective_find("naive")->refuse(&idle), "it learns nothing"));
    const struct objective *decoded = objective_find("decoded");
    assert_non_null(strstr(decoded->refuse(&(struct objective_facts){.num_outputs = 4}), "has none"));
    const struct objective_facts uneven = {.num_outputs = 5, .decoded_rows = 2};
    assert_non_null(strstr(decoded->refuse(&uneven), "multiple of the rows"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_and_errors_are_those_of_the_formula),
        cmocka_unit_test(gradients_are_those_of_the_formula),
        cmocka_unit_test(quantiles_are_those_of_the_formula),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
