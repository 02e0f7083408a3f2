/* Random feature attention against its definition in double precision: products of features as cosines of
   differences, gates as a recurrence of weights, gradients by differences of the loss; and against the
   Gaussian kernel that it estimates. Bugs planted and caught: cosines for sines; the length without 1e-3;
   sigma left out of the gradient; the part of a gradient along its row not removed; sigma's gradient of
   queries only; the floor without effect; 1 - g left out of a key's weight, or of its gradient; the gate of
   the query's own key not applied; gradients of later keys not summed.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "support/group_case.h"
#include "support/kernel_case.h"

enum { MOST_DIM = 64 };

/* One head. Arrays: query (n_q, d), key (n_k, d), value (n_k, d_v), params (sigma, then w and b of a
   gate). */
enum array { QUERY, KEY, VALUE, PARAMS, ARRAYS };

struct definition {
    size_t n_q, n_k, d, d_v, num_features, count[ARRAYS];
    bool causal, gate;
    double *x[ARRAYS], *dout, *out;
    float *w; /* (num_features, d) */
};

static void unit(const struct definition *o, const double *x, double *y)
{
    double square = 0;
    for (size_t c = 0; c < o->d; c++)
        square += x[c] * x[c];
    for (size_t c = 0; c < o->d; c++)
        y[c] = o->x[PARAMS][c] * x[c] / (sqrt(square) + 1e-3);
}

static double kernel(const struct definition *o, const double *query, const double *key)
{
    double y[MOST_DIM], z[MOST_DIM], sum = 0;
    unit(o, query, y);
    unit(o, key, z);
    for (size_t r = 0; r < o->num_features; r++) {
        double angle = 0;
        for (size_t c = 0; c < o->d; c++)
            angle += (double)o->w[r * o->d + c] * (y[c] - z[c]);
        sum += cos(angle);
    }
    return sum / (double)o->num_features;
}

/* Fills out and returns <dout, out>. */
static double run(const struct definition *o)
{
    double *weight = calloc(o->n_k, sizeof *weight), loss = 0;
    for (size_t i = 0, seen = 0; i < o->n_q; i++) {
        for (size_t now = o->causal ? i + 1 : o->n_k; seen < now; seen++) {
            double g = 0, logit = o->gate ? o->x[PARAMS][2 * o->d] : 0;
            for (size_t c = 0; o->gate && c < o->d; c++)
                logit += o->x[PARAMS][o->d + c] * o->x[KEY][seen * o->d + c];
            g = o->gate ? 1 / (1 + exp(-logit)) : 0;
            for (size_t j = 0; o->gate && j < seen; j++)
                weight[j] *= g;
            weight[seen] = 1 - g;
        }
        double *out = o->out + i * o->d_v, bottom = 0;
        memset(out, 0, o->d_v * sizeof *out);
        for (size_t j = 0; j < seen; j++) {
            double score = weight[j] * kernel(o, o->x[QUERY] + i * o->d, o->x[KEY] + j * o->d);
            bottom += score;
            for (size_t c = 0; c < o->d_v; c++)
                out[c] += score * o->x[VALUE][j * o->d_v + c];
        }
        for (size_t c = 0; c < o->d_v; c++) {
            out[c] /= fmax(bottom, exp(-2));
            loss += out[c] * o->dout[i * o->d_v + c];
        }
    }
    free(weight);
    return loss;
}

static double *doubled(const float *from, size_t count)
{
    double *to = calloc(count + 1, sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

static struct definition definition_of(const struct attention_case *data, size_t num_features, bool gate)
{
    struct definition o = {.n_q = data->queries[0],
                           .n_k = data->keys[0],
                           .d = data->head_dim,
                           .d_v = data->value_dim,
                           .num_features = num_features,
                           .causal = data->causal,
                           .gate = gate};
    const float *from[ARRAYS] = {data->query, data->key, data->value, data->params};
    size_t count[ARRAYS] = {o.n_q * o.d, o.n_k * o.d, o.n_k * o.d_v, gate ? 2 * o.d + 1 : o.d};
    for (size_t a = 0; a < ARRAYS; a++) {
        o.count[a] = count[a];
        o.x[a] = doubled(from[a], count[a]);
    }
    o.dout = doubled(data->dout, o.n_q * o.d_v);
    o.out = calloc(o.n_q * o.d_v, sizeof *o.out);
    o.w = calloc(num_features * o.d, sizeof *o.w);
    random_normals(random_key(data->call_key, RANDOM_FEATURES, 0), 0, o.w, num_features * o.d);
    return o;
}

static void definition_free(struct definition *o)
{
    for (size_t a = 0; a < ARRAYS; a++)
        free(o->x[a]);
    free(o->dout);
    free(o->out);
    free(o->w);
}

/* The derivative along a direction, or of one number (NULL). */
static double derivative(const struct definition *o, enum array a, size_t at, const float *direction)
{
    double step = 1e-5, sides[2], *before = calloc(o->count[a], sizeof *before);
    memcpy(before, o->x[a], o->count[a] * sizeof *before);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < o->count[a]; i++)
            o->x[a][i] =
                before[i] + (side ? -step : step) * (direction == NULL ? i == at : (double)direction[i]);
        sides[side] = run(o);
    }
    memcpy(o->x[a], before, o->count[a] * sizeof *before);
    free(before);
    return (sides[0] - sides[1]) / (2 * step);
}

enum { DIRECTIONS = 3 };

/* Every number of small arrays, and some directions of large ones. Gradients are sums of float32 with terms
   that cancel: 1e-4 of the largest, or of the sum of sizes along a direction. */
static void check_gradient(const float *got, const double *want, const float *directions, size_t count,
                           bool each, const char *what)
{
    double largest = 0;
    for (size_t i = 0; each && i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; each && i < count; i++)
        check_near((double)got[i] - 0.25, want[i], 1e-4 * largest + 1e-5, what);
    for (size_t k = 0; !each && k < DIRECTIONS; k++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++) {
            double term = ((double)got[i] - 0.25) * (double)directions[k * count + i];
            sum += term;
            squares += term * term;
        }
        check_near(sum, want[k], 1e-4 * sqrt(squares) + 1e-4, what);
    }
}

static void check_shape(const char *text, size_t num_features, bool gate, size_t n_q, size_t n_k, size_t d,
                        size_t d_v, bool causal)
{
    static const char *const names[ARRAYS] = {"dquery", "dkey", "dvalue", "dparams"};
    void *options = group_case_options("rfa", text);
    struct attention_case data = kernel_case_new("rfa", options, n_q, n_k, d, d_v, causal);
    struct definition o = definition_of(&data, num_features, gate);
    bool each = n_q * n_k < 400;
    double *want[ARRAYS], *out = calloc(n_q * d_v, sizeof *out);
    float *directions[ARRAYS];
    run(&o);
    memcpy(out, o.out, n_q * d_v * sizeof *out);
    for (size_t a = 0; a < ARRAYS; a++) {
        size_t numbers = each ? o.count[a] : DIRECTIONS;
        want[a] = calloc(numbers, sizeof **want);
        directions[a] = calloc(DIRECTIONS * o.count[a], sizeof **directions);
        random_normals(a, 0, directions[a], DIRECTIONS * o.count[a]);
        for (size_t i = 0; i < numbers; i++)
            want[a][i] = derivative(&o, (enum array)a, i, each ? NULL : directions[a] + i * o.count[a]);
    }
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data.kernels = *kernels;
        struct attention_result result = attention_case_run(&data);
        const float *got[ARRAYS] = {result.dquery, result.dkey, result.dvalue, result.dparams};
        double largest = 0;
        for (size_t i = 0; i < n_q * d_v; i++)
            largest = fmax(largest, fabs(out[i]));
        for (size_t i = 0; i < n_q * d_v; i++)
            check_near((double)result.out[i], out[i], 2e-5 * largest, "out");
        for (size_t a = 0; a < ARRAYS; a++)
            check_gradient(got[a], want[a], directions[a], o.count[a], each, names[a]);
        attention_result_free(&result);
    }
    for (size_t a = 0; a < ARRAYS; a++) {
        free(want[a]);
        free(directions[a]);
    }
    free(out);
    free(options);
    definition_free(&o);
    attention_case_free(&data);
}

static void rfa_is_its_definition(void **state)
{
    (void)state;
    check_shape("num_features=1", 1, false, 1, 1, 1, 1, false);
    check_shape("num_features=9", 9, false, 17, 13, 5, 7, false);
    check_shape("num_features=6", 6, false, 70, 150, 3, 2, false);
    check_shape("", 64, false, 66, 30, 16, 3, false);
}

static void causal_rfa_is_its_definition(void **state)
{
    (void)state;
    check_shape("num_features=9", 9, false, 15, 15, 5, 7, true);
    check_shape("num_features=5", 5, false, 200, 200, 4, 3, true);
}

static void a_gate_is_its_recurrence(void **state)
{
    (void)state;
    check_shape("num_features=9 gate=true", 9, true, 15, 15, 5, 7, true);
    check_shape("num_features=5 gate=true", 5, true, 200, 200, 4, 3, true);
    check_shape("num_features=2 gate=true", 2, true, 1100, 1100, 2, 2, true);
}

/* With 4,096 directions the bias of the ratio is below the 5 standard errors allowed. */
static void features_estimate_the_gaussian_kernel(void **state)
{
    (void)state;
    enum { KEYS = 12, SEEDS = 40, D = 6, D_V = 4 };
    void *options = group_case_options("rfa", "num_features=4096");
    struct attention_case data = kernel_case_new("rfa", options, 1, KEYS, D, D_V, false);
    for (size_t c = 0; c < D; c++)
        data.params[c] = 1;
    double want[D_V] = {0}, mass = 0;
    struct definition o = definition_of(&data, 1, false);
    for (size_t j = 0; j < KEYS; j++) {
        double y[D], z[D], distance = 0;
        unit(&o, o.x[QUERY], y);
        unit(&o, o.x[KEY] + j * D, z);
        for (size_t c = 0; c < D; c++)
            distance += (y[c] - z[c]) * (y[c] - z[c]);
        mass += exp(-distance / 2);
        for (size_t c = 0; c < D_V; c++)
            want[c] += exp(-distance / 2) * (double)data.value[j * D_V + c];
    }
    for (size_t c = 0; c < D_V; c++)
        want[c] /= mass;
    kernel_case_check_mean(&data, want, SEEDS);
    definition_free(&o);
    attention_case_free(&data);
    free(options);
}

/* The sums themselves are unbiased. The rows of a query and its opposite key are 2.2 apart, so their kernel
   is exp(-2.42), and 8 standard deviations of its estimate are below the least denominator: the output is the
   estimate times the value, divided by exp(-2). */
static void products_of_features_estimate_the_kernel(void **state)
{
    (void)state;
    enum { SEEDS = 400, D = 6 };
    void *options = group_case_options("rfa", "num_features=8192");
    struct attention_case data = kernel_case_new("rfa", options, 1, 1, D, 1, false);
    double sum = 0, squares = 0, y[D], z[D], distance = 0;
    for (size_t c = 0; c < D; c++) {
        data.params[c] = 1.1f;
        data.key[c] = -data.query[c];
    }
    struct definition o = definition_of(&data, 1, false);
    unit(&o, o.x[QUERY], y);
    unit(&o, o.x[KEY], z);
    for (size_t c = 0; c < D; c++)
        distance += (y[c] - z[c]) * (y[c] - z[c]);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        data.call_key = seed;
        struct attention_result result = attention_case_run(&data);
        double estimate = (double)result.out[0] / (double)data.value[0] * exp(-2);
        assert_true(estimate < exp(-2));
        sum += estimate;
        squares += estimate * estimate;
        attention_result_free(&result);
    }
    double mean = sum / SEEDS, error = sqrt((squares / SEEDS - mean * mean) / SEEDS);
    check_near(mean, exp(-distance / 2), 5 * error, "mean of the estimates");
    assert_true(error < 0.01 * mean);
    definition_free(&o);
    attention_case_free(&data);
    free(options);
}

static void a_gate_needs_an_order(void **state)
{
    (void)state;
    void *options = group_case_options("rfa", "gate=true");
    struct problem_shape shape = {.head_dim = 4, .value_dim = 4, .workers = 1};
    const char *why = attention_find("rfa")->host.refuse(options, &shape);
    assert_non_null(why);
    assert_non_null(strstr(why, "needs causal"));
    shape.causal = true;
    assert_null(attention_find("rfa")->host.refuse(options, &shape));
    free(options);
}

static void rows_of_any_size_have_finite_results(void **state)
{
    (void)state;
    static const float sizes[] = {0, 1e-30f, 1e10f, 1e25f};
    for (int gate = 0; gate < 2; gate++) {
        void *options = group_case_options("rfa", gate ? "num_features=16 gate=true" : "num_features=16");
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct attention_case data = kernel_case_new("rfa", options, 9, 9, 6, 4, gate);
            for (size_t i = 0; i < 9 * 6; i++) {
                data.query[i] *= sizes[s];
                data.key[i] *= sizes[s];
            }
            struct attention_result result = attention_case_run(&data);
            for (size_t i = 0; i < 9 * 4; i++)
                assert_true(isfinite(result.out[i]) && isfinite(result.dvalue[i]));
            for (size_t i = 0; i < 9 * 6; i++)
                assert_true(isfinite(result.dquery[i]) && isfinite(result.dkey[i]));
            for (size_t i = 0; i < result.param_count; i++)
                assert_true(isfinite(result.dparams[i]));
            attention_result_free(&result);
            attention_case_free(&data);
        }
        free(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfa_is_its_definition),
        cmocka_unit_test(causal_rfa_is_its_definition),
        cmocka_unit_test(a_gate_is_its_recurrence),
        cmocka_unit_test(features_estimate_the_gaussian_kernel),
        cmocka_unit_test(products_of_features_estimate_the_kernel),
        cmocka_unit_test(a_gate_needs_an_order),
        cmocka_unit_test(rows_of_any_size_have_finite_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
