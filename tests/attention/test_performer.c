/* The Performer against the kernel of its features in double precision over all pairs, with the directions of
   its key; against softmax, which it estimates; and rows whose features differ by more than float32's range.
   Bugs planted and caught: the gradient of a feature with its constant; |x|^2 / 2 left out of its gradient,
   or of levels; directions not divided by d^(1/4) on their way back; levels of the first block for all; a
   causal query at the level of later keys; queries at the level of their first key.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_kernel.h"
#include "parts/features/random_features.h"
#include "support/attention_case.h"
#include "support/check.h"

enum { MOST_FEATURES = 64, MOST_DIM = 64, CALL_KEY = 77 };

struct directions {
    size_t count;
    double level; /* about the largest exponent of keys: a constant factor that keeps double in range */
    float w[MOST_DIM * MOST_FEATURES]; /* (d, count), divided by d^(1/4) */
};

/* Exponents, features and the gradients of features (count, d). The largest exponent is a constant. */
static void features(const struct directions *f, const double *x, size_t d, double level, double *phi,
                     double *dphi)
{
    double half = 0, largest = -INFINITY;
    for (size_t c = 0; c < d; c++)
        half += x[c] * x[c] / (2 * sqrt((double)d));
    for (size_t r = 0; r < f->count; r++) {
        phi[r] = -half;
        for (size_t c = 0; c < d; c++)
            phi[r] += x[c] * (double)f->w[c * f->count + r];
        largest = fmax(largest, phi[r]);
    }
    for (size_t r = 0; r < f->count; r++) {
        double power = exp(phi[r] - level);
        for (size_t c = 0; c < d; c++)
            dphi[r * d + c] = power * ((double)f->w[c * f->count + r] - x[c] / sqrt((double)d));
        phi[r] = power + 1e-6 * exp(largest - level);
    }
}

static double kernel(const void *self, const double *query, const double *key, size_t d, double *dquery,
                     double *dkey)
{
    static double f[MOST_FEATURES], g[MOST_FEATURES], df[MOST_FEATURES * MOST_DIM],
        dg[MOST_FEATURES * MOST_DIM];
    const struct directions *directions = self;
    double sum = 0;
    memset(dquery, 0, d * sizeof *dquery);
    memset(dkey, 0, d * sizeof *dkey);
    features(directions, query, d, 0, f, df);
    features(directions, key, d, directions->level, g, dg);
    for (size_t r = 0; r < directions->count; r++) {
        sum += f[r] * g[r];
        for (size_t c = 0; c < d; c++) {
            dquery[c] += df[r * d + c] * g[r];
            dkey[c] += dg[r * d + c] * f[r];
        }
    }
    return sum;
}

static void *options_of(size_t count)
{
    const struct mechanism *performer = attention_find("performer");
    void *options = calloc(1, performer->options_size);
    char text[40];
    snprintf(text, sizeof text, "num_features=%zu", count);
    options_preset(performer->options, options);
    options_take(performer->options, options, text);
    return options;
}

static void draw(struct directions *f, size_t count, size_t d)
{
    size_t bytes = features_work_size(count, d, 1);
    void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
    f->count = count;
    features_draw(kernels_named(NULL, &(const char *){0}), NULL, count, d,
                  random_key(CALL_KEY, RANDOM_FEATURES, 0), f->w, work);
    free(work);
}

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

/* Relative to the largest number. An exponent is a sum of float32 with an error of about 1e-6 for rows of any
   length here, which is the relative error of its feature. */
static void check_array(const float *got, const double *want, size_t count, double start, double room,
                        const char *what)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i], room * (largest + start), what);
}

static struct attention_case case_of(const void *options, size_t n_q, size_t n_k, size_t d, size_t d_v)
{
    struct attention_case data = {.mechanism = attention_find("performer"),
                                  .options = options,
                                  .num_sequences = 1,
                                  .num_heads = 1,
                                  .head_dim = d,
                                  .value_dim = d_v,
                                  .start = 0.25f,
                                  .call_key = CALL_KEY,
                                  .queries = {n_q},
                                  .keys = {n_k}};
    attention_case_fill(&data, n_q + n_k, false);
    return data;
}

/* longer: every seventh key is this many times longer than the others. */
static void check_shape(size_t count, size_t n_q, size_t n_k, size_t d, size_t d_v, bool causal, float longer)
{
    static struct directions directions;
    void *options = options_of(count);
    struct attention_case data = case_of(options, n_q, n_k, d, d_v);
    data.causal = causal;
    for (size_t i = 0; i < n_k * d; i++)
        data.key[i] *= i / d % 7 == 3 ? longer : 1;
    draw(&directions, count, d);
    size_t *visible = malloc(n_q * sizeof *visible);
    for (size_t i = 0; i < n_q; i++)
        visible[i] = causal ? i + 1 : n_k;
    struct oracle_kernel o = oracle_kernel_new(n_q, n_k, d, d_v);
    o.kernel = kernel;
    o.self = &directions;
    o.visible = visible;
    to_double(o.query, data.query, n_q * d);
    to_double(o.key, data.key, n_k * d);
    to_double(o.value, data.value, n_k * d_v);
    to_double(o.dout, data.dout, n_q * d_v);
    oracle_kernel_run(&o);
    double room = longer > 1 ? 2e-4 : 3e-5;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data.kernels = *kernels;
        struct attention_result result = attention_case_run(&data);
        check_array(result.out, o.out, n_q * d_v, 0, room, "out");
        check_array(result.dquery, o.dquery, n_q * d, 0.25, room, "dquery");
        check_array(result.dkey, o.dkey, n_k * d, 0.25, room, "dkey");
        check_array(result.dvalue, o.dvalue, n_k * d_v, 0.25, room, "dvalue");
        attention_result_free(&result);
    }
    free(visible);
    free(options);
    oracle_kernel_free(&o);
    attention_case_free(&data);
}

static void performer_is_its_kernel(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, 1, false, 1);
    check_shape(24, 70, 130, 5, 7, false, 1);
    check_shape(5, 1100, 65, 3, 2, false, 1);
    check_shape(5, 65, 2100, 3, 2, false, 1);
    check_shape(64, 40, 30, 64, 16, false, 1);
}

static void causal_performer_is_its_kernel(void **state)
{
    (void)state;
    check_shape(24, 63, 63, 5, 7, true, 1);
    check_shape(17, 200, 200, 16, 8, true, 1);
    check_shape(6, 1100, 1100, 2, 2, true, 1);
}

/* Exponents of long keys are up to 200 below the others. */
static void long_keys_keep_their_place(void **state)
{
    (void)state;
    check_shape(24, 70, 130, 5, 7, false, 12);
    check_shape(24, 150, 150, 5, 7, true, 12);
}

static void the_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    enum { D = 3 };
    static struct directions directions;
    float x[2 * D];
    double row[2 * D], gradient[2 * D], spare[2 * D];
    draw(&directions, 7, D);
    random_normals(2, 0, x, 2 * D);
    to_double(row, x, 2 * D);
    kernel(&directions, row, row + D, D, gradient, gradient + D);
    for (size_t i = 0; i < 2 * D; i++) {
        double before = row[i], step = 1e-5, want;
        row[i] = before + step;
        want = kernel(&directions, row, row + D, D, spare, spare + D);
        row[i] = before - step;
        want = (want - kernel(&directions, row, row + D, D, spare, spare + D)) / (2 * step);
        row[i] = before;
        /* The constant moves with the largest exponent: 1e-6 of the size. */
        check_near(gradient[i], want, 1e-4 * fabs(want) + 1e-4, "gradient of the kernel");
    }
}

/* With 4,096 features the bias of the ratio, about 1 / 4,096 of its spread per feature, is below the 5
   standard errors allowed. */
static void features_estimate_softmax(void **state)
{
    (void)state;
    enum { KEYS = 12, SEEDS = 40, D = 6, D_V = 4 };
    void *options = options_of(4096);
    struct attention_case data = case_of(options, 1, KEYS, D, D_V);
    double want[D_V] = {0}, mass = 0, sum[D_V] = {0}, squares[D_V] = {0};
    for (size_t j = 0; j < KEYS; j++) {
        double score = 0;
        for (size_t c = 0; c < D; c++)
            score += (double)data.query[c] * (double)data.key[j * D + c] / sqrt(D);
        mass += exp(score);
        for (size_t c = 0; c < D_V; c++)
            want[c] += exp(score) * (double)data.value[j * D_V + c];
    }
    for (size_t seed = 0; seed < SEEDS; seed++) {
        data.call_key = seed;
        struct attention_result result = attention_case_run(&data);
        for (size_t c = 0; c < D_V; c++) {
            sum[c] += (double)result.out[c];
            squares[c] += pow((double)result.out[c], 2);
        }
        attention_result_free(&result);
    }
    for (size_t c = 0; c < D_V; c++) {
        double mean = sum[c] / SEEDS, error = sqrt((squares[c] / SEEDS - mean * mean) / SEEDS);
        assert_true(error < 0.02);
        check_near(mean, want[c] / mass, 5 * error, "mean of the estimates");
    }
    attention_case_free(&data);
    free(options);
}

/* A row longer than the square root of the largest float32 has no finite square. */
static void rows_of_any_size_have_finite_results(void **state)
{
    (void)state;
    static const float sizes[] = {0, 1e-30f, 1e4f, 1e15f, 1e25f};
    void *options = options_of(16);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < 2 * sizeof sizes / sizeof *sizes; s++) {
            struct attention_case data = case_of(options, 9, 9, 6, 4);
            for (size_t i = 0; i < 9 * 6; i++) {
                data.query[i] *= sizes[s / 2];
                data.key[i] *= sizes[s / 2];
            }
            data.causal = s % 2 != 0;
            data.kernels = *kernels;
            struct attention_result result = attention_case_run(&data);
            for (size_t i = 0; i < 9 * 4; i++)
                assert_true(isfinite(result.out[i]) && isfinite(result.dvalue[i]));
            for (size_t i = 0; i < 9 * 6; i++)
                assert_true(isfinite(result.dquery[i]) && isfinite(result.dkey[i]));
            attention_result_free(&result);
            attention_case_free(&data);
        }
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oracle_is_its_own_derivative),
        cmocka_unit_test(performer_is_its_kernel),
        cmocka_unit_test(causal_performer_is_its_kernel),
        cmocka_unit_test(long_keys_keep_their_place),
        cmocka_unit_test(features_estimate_softmax),
        cmocka_unit_test(rows_of_any_size_have_finite_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
