/* The Performer against the kernel of its features in double precision over all pairs, with the directions of
   its key; against softmax, which it estimates; and rows whose features differ by more than float32's range.
   Bugs planted and caught: the gradient of a feature with its constant; |x|^2 / 2 left out of its gradient,
   or of levels; levels of the first block for all; a
   causal query at the level of later keys; queries at the level of their first key;
   the gradient of the other sign added in place of subtracted, or left out.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/features/random_features.h"
#include "support/check.h"
#include "support/group_case.h"
#include "support/kernel_case.h"

enum { MOST_FEATURES = 64, MOST_DIM = 64 };

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

static void *options_of(size_t count, bool both_signs)
{
    char text[60];
    snprintf(text, sizeof text, "num_features=%zu both_signs=%s", count, both_signs ? "true" : "false");
    return group_case_options("performer", text);
}

/* With both signs, the second half of the directions mirrors the first. */
static void draw(struct directions *f, uint64_t call_key, size_t count, size_t d, bool both_signs)
{
    static float drawn[MOST_DIM * MOST_FEATURES];
    size_t directions = both_signs ? (count + 1) / 2 : count, bytes = features_work_size(directions, d, 1);
    void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
    f->count = count;
    features_draw(kernels_named(NULL, &(const char *){0}), NULL, directions, d,
                  random_key(call_key, RANDOM_FEATURES, 0), drawn, work);
    for (size_t c = 0; c < d; c++)
        for (size_t r = 0; r < count; r++)
            f->w[c * count + r] =
                r < directions ? drawn[c * directions + r] : -drawn[c * directions + r - directions];
    free(work);
}

/* longer: every seventh key is this many times longer than the others, or, if early, all in the first half.
   An exponent is a sum of float32 with an error of about 1e-6, or more for long rows, which is the relative
   error of its feature. */
static void check_signs(size_t count, size_t n_q, size_t n_k, size_t d, size_t d_v, bool causal, float longer,
                        bool early, bool both_signs)
{
    static struct directions directions;
    void *options = options_of(count, both_signs);
    struct attention_case data = kernel_case_new("performer", options, n_q, n_k, d, d_v, causal);
    for (size_t i = 0; i < n_k * d; i++)
        data.key[i] *= (early ? i / d < n_k / 2 : i / d % 7 == 3) ? longer : 1;
    draw(&directions, data.call_key, count, d, both_signs);
    kernel_case_check(&data, &(struct case_kernel){kernel, &directions, 0, longer > 1 ? 2e-4 : 3e-5});
    free(options);
    attention_case_free(&data);
}

static void check_shape(size_t count, size_t n_q, size_t n_k, size_t d, size_t d_v, bool causal, float longer,
                        bool early)
{
    check_signs(count, n_q, n_k, d, d_v, causal, longer, early, false);
    check_signs(count, n_q, n_k, d, d_v, causal, longer, early, true);
}

static void performer_is_its_kernel(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, 1, false, 1, false);
    check_shape(24, 70, 130, 5, 7, false, 1, false);
    check_shape(5, 1100, 65, 3, 2, false, 1, false);
    check_shape(5, 65, 2100, 3, 2, false, 1, false);
    check_shape(64, 40, 30, 64, 16, false, 1, false);
}

static void causal_performer_is_its_kernel(void **state)
{
    (void)state;
    check_shape(24, 63, 63, 5, 7, true, 1, false);
    check_shape(17, 200, 200, 16, 8, true, 1, false);
    check_shape(6, 1100, 1100, 2, 2, true, 1, false);
}

/* Exponents of long keys are up to 200 below the others. */
static void long_keys_keep_their_place(void **state)
{
    (void)state;
    check_shape(24, 70, 130, 5, 7, false, 12, false);
    check_shape(24, 150, 150, 5, 7, true, 12, false);
    check_shape(24, 150, 150, 5, 7, true, 12, true);
}

static void the_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    static struct directions directions;
    draw(&directions, 1, 7, 3, true);
    /* The constant moves with the largest exponent: 1e-6 of the size. */
    kernel_case_check_derivative(&(struct case_kernel){kernel, &directions, 0, 1e-4}, 3);
}

/* With 4,096 features the bias of the ratio, about 1 / 4,096 of its spread per feature, is below the 5
   standard errors allowed. */
static void check_softmax(bool both_signs)
{
    enum { KEYS = 12, SEEDS = 40, D = 6, D_V = 4 };
    void *options = options_of(4096, both_signs);
    struct attention_case data = kernel_case_new("performer", options, 1, KEYS, D, D_V, false);
    double want[D_V] = {0}, mass = 0;
    for (size_t j = 0; j < KEYS; j++) {
        double score = 0;
        for (size_t c = 0; c < D; c++)
            score += (double)data.query[c] * (double)data.key[j * D + c] / sqrt(D);
        mass += exp(score);
        for (size_t c = 0; c < D_V; c++)
            want[c] += exp(score) * (double)data.value[j * D_V + c];
    }
    for (size_t c = 0; c < D_V; c++)
        want[c] /= mass;
    kernel_case_check_mean(&data, want, SEEDS);
    attention_case_free(&data);
    free(options);
}

static void features_estimate_softmax(void **state)
{
    (void)state;
    check_softmax(false);
    check_softmax(true);
}

/* A row longer than the square root of the largest float32 has no finite square. */
static void rows_of_any_size_have_finite_results(void **state)
{
    (void)state;
    static const float sizes[] = {0, 1e-30f, 1e4f, 1e15f, 1e25f};
    void *options = options_of(16, true);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < 2 * sizeof sizes / sizeof *sizes; s++) {
            struct attention_case data = kernel_case_new("performer", options, 9, 9, 6, 4, s % 2 != 0);
            for (size_t i = 0; i < 9 * 6; i++) {
                data.query[i] *= sizes[s / 2];
                data.key[i] *= sizes[s / 2];
            }
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
