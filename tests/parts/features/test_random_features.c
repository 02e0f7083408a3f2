/* Random features: each direction is standard normal by itself and orthogonal to its block, features
   estimate exp(x y / sqrt(d)) without bias, and both stabilisers only scale them. Bugs planted and caught:
   rows of length 1; repeated blocks; d^(1/4) applied once; the length of x left out; the level of one row
   used for all; a shrunk row with its whole length; both signs with one sign, or with the mirror of an odd
   count one feature too early.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/random_features.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

enum { D = 16, COUNT = 40, ROWS = 70 };

static const float *draw(uint64_t seed, size_t count, float **block, size_t *floats)
{
    size_t work_floats = features_work_size(count, D, 1) / sizeof(float);
    float *work = guard_floats(work_floats);
    *floats = features_count(count, D);
    *block = guard_floats(*floats);
    features_draw(kernels_named(NULL, &(const char *){0}), NULL, count, D, seed, *block, work);
    guard_free(work, work_floats);
    return *block;
}

static void directions_are_orthogonal_in_blocks_and_normal(void **state)
{
    (void)state;
    double sum = 0, squares = 0, fourths = 0, draws = 0, across = 0, across_fourths = 0, pairs = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        float *block;
        size_t floats;
        const float *w = draw(seed, COUNT, &block, &floats);
        for (size_t a = 0; a < COUNT; a++)
            for (size_t b = 0; b < a; b++) {
                double dot = 0, size = 0;
                for (size_t c = 0; c < D; c++) {
                    dot += (double)w[c * COUNT + a] * (double)w[c * COUNT + b];
                    size += fabs((double)w[c * COUNT + a] * (double)w[c * COUNT + b]);
                }
                if (a / D == b / D)
                    check_near(dot, 0, 8 * FLT_EPSILON * size, "two of a block");
                across += a / D == b / D ? 0 : dot * dot;
                across_fourths += a / D == b / D ? 0 : dot * dot * dot * dot;
                pairs += a / D != b / D;
            }
        for (size_t i = 0; i < D * COUNT; i++) {
            double x = (double)w[i] * pow(D, 0.25);
            sum += x;
            squares += x * x;
            fourths += x * x * x * x;
            draws += 1;
        }
        guard_free(block, floats);
    }
    /* 128,000 nearly independent numbers. The bounds are five standard errors, which are 0.003, 0.004 and
       0.03. */
    check_near(across / pairs, 1, 0.05, "two of different blocks");
    /* E L^4 L'^4 cos^4 with L^2 chi-square, over sqrt D: (D + 2)^2 3 / (D (D + 2)). Repeated blocks have
       20. */
    check_near(across_fourths / pairs, 3.0 * (D + 2) / D, 0.3, "two of different blocks, fourth moment");
    check_near(sum / draws, 0, 0.015, "mean");
    check_near(squares / draws, 1, 0.02, "variance");
    check_near(fourths / draws, 3, 0.15, "fourth moment");
}

static void products_estimate_the_exponential(void **state)
{
    (void)state;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    float x[2 * D], phi[2 * 64], products[2 * 64], numbers[6];
    struct feature_rows from = {products, numbers, numbers + 2, numbers + 4};
    random_normals(3, 0, x, 2 * D);
    enum { SEEDS = 4000 };
    double want = 0, sum = 0, squares = 0;
    for (size_t c = 0; c < D; c++)
        want += (double)x[c] * (double)x[D + c] / sqrt(D);
    want = exp(want);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float *block;
        size_t floats;
        struct features f = {kernels, draw(seed, 64, &block, &floats), 64, D, false};
        features_project(&f, x, D, 2, &from);
        features_of(&f, &from, 2, 1, STABILISE_ALL, 0, phi);
        double estimate = 0;
        for (size_t r = 0; r < 64; r++)
            estimate += (double)phi[r] * (double)phi[64 + r] / 64;
        sum += estimate;
        squares += estimate * estimate;
        guard_free(block, floats);
    }
    double mean = sum / SEEDS, error = sqrt((squares / SEEDS - mean * mean) / SEEDS);
    check_near(mean, want, 5 * error, "mean of the estimates");
    assert_true(error < 0.05 * want);
}

static void stabilisers_scale(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int shrunk = 0; shrunk < 2; shrunk++) {
            float *block, x[ROWS * D], phi[ROWS * COUNT], products[ROWS * COUNT], numbers[3 * ROWS],
                shrink = shrunk ? 0.3f : 1;
            struct feature_rows from = {products, numbers, numbers + ROWS, numbers + 2 * ROWS};
            size_t floats;
            struct features f = {*kernels, draw(1, COUNT, &block, &floats), COUNT, D, false};
            random_normals(2, 0, x, ROWS * D);
            double exponent[ROWS][COUNT], largest[ROWS], level = -INFINITY;
            for (size_t i = 0; i < ROWS; i++) {
                double half = 0;
                largest[i] = -INFINITY;
                for (size_t c = 0; c < D; c++)
                    half += pow((double)shrink * (double)x[i * D + c], 2) / (2 * sqrt(D));
                for (size_t r = 0; r < COUNT; r++) {
                    exponent[i][r] = -half;
                    for (size_t c = 0; c < D; c++)
                        exponent[i][r] +=
                            (double)shrink * (double)x[i * D + c] * (double)f.directions[c * COUNT + r];
                    largest[i] = fmax(largest[i], exponent[i][r]);
                }
                level = fmax(level, largest[i]);
            }
            features_project(&f, x, D, ROWS, &from);
            /* An exponent is a sum of 2 D terms below 10 with an error of 1e-5, which is the relative
               error of its exponential. */
            check_near((double)features_level(&from, ROWS, shrink), level, 1e-5, "level");
            for (int all = 0; all < 2; all++) {
                features_of(&f, &from, ROWS, shrink, all ? STABILISE_ALL : STABILISE_ROW, (float)level, phi);
                for (size_t i = 0; i < ROWS; i++)
                    for (size_t r = 0; r < COUNT; r++)
                        check_near((double)phi[i * COUNT + r],
                                   exp(exponent[i][r] - (all ? level : largest[i])) + 1e-6, 4e-5, "feature");
            }
            guard_free(block, floats);
        }
}

/* The features of the other sign are those of -w, and an odd count leaves out the last of them. */
static void both_signs_mirror_the_directions(void **state)
{
    (void)state;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    static const size_t counts[] = {1, 2, 7, COUNT};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        size_t count = counts[k], drawn = (count + 1) / 2, floats;
        assert_int_equal(features_directions(count, true), drawn);
        assert_int_equal(features_directions(count, false), count);
        float *block, x[ROWS * D], phi[ROWS * COUNT], want[ROWS * COUNT], numbers[3 * ROWS],
            *products = guard_floats(ROWS * count);
        const float *w = draw(1, drawn, &block, &floats);
        float mirrored[D * COUNT];
        for (size_t c = 0; c < D; c++)
            for (size_t r = 0; r < count; r++)
                mirrored[c * count + r] = r < drawn ? w[c * drawn + r] : -w[c * drawn + r - drawn];
        struct feature_rows from = {products, numbers, numbers + ROWS, numbers + 2 * ROWS};
        struct features f = {kernels, w, count, D, true}, all = {kernels, mirrored, count, D, false};
        random_normals(2, 0, x, ROWS * D);
        features_project(&all, x, D, ROWS, &from);
        float level = features_level(&from, ROWS, 1);
        features_of(&all, &from, ROWS, 1, STABILISE_ROW, 0, want);
        features_project(&f, x, D, ROWS, &from);
        check_near((double)features_level(&from, ROWS, 1), (double)level, 1e-5, "level");
        features_of(&f, &from, ROWS, 1, STABILISE_ROW, 0, phi);
        for (size_t i = 0; i < ROWS * count; i++)
            check_near((double)phi[i], (double)want[i], 4e-5, "a feature of both signs");
        guard_free(products, ROWS * count);
        guard_free(block, floats);
    }
}

/* Mean and squared error of 64 features' estimates for two rows. */
static void estimates(const float *x, bool both_signs, double want, double *mean, double *square)
{
    enum { SEEDS = 2000, FEATURES = 64 };
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    float phi[2 * FEATURES], products[2 * FEATURES], numbers[6];
    struct feature_rows from = {products, numbers, numbers + 2, numbers + 4};
    *mean = *square = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float *block;
        size_t floats;
        const float *w = draw(seed, features_directions(FEATURES, both_signs), &block, &floats);
        struct features f = {kernels, w, FEATURES, D, both_signs};
        features_project(&f, x, D, 2, &from);
        features_of(&f, &from, 2, 1, STABILISE_ALL, 0, phi);
        double estimate = 0;
        for (size_t r = 0; r < FEATURES; r++)
            estimate += (double)phi[r] * (double)phi[FEATURES + r] / FEATURES;
        *mean += estimate / SEEDS;
        *square += (estimate - want) * (estimate - want) / SEEDS;
        guard_free(block, floats);
    }
    check_near(*mean, want, 5 * sqrt(*square / SEEDS), "mean of the estimates");
}

/* Choromanski et al. 2020, lemma 2: for independent directions the factor is 1 - exp(-|x~ + y~|^2), 0.26 for
   these rows; frames of D = 16 lower both errors about equally. */
static void both_signs_have_less_variance(void **state)
{
    (void)state;
    float x[2 * D];
    double want = 0, sum = 0, mean, one, both;
    random_normals(3, 0, x, 2 * D);
    for (size_t c = 0; c < 2 * D; c++)
        x[c] *= 0.2f;
    for (size_t c = 0; c < D; c++) {
        want += (double)x[c] * (double)x[D + c] / sqrt(D);
        sum += pow((double)x[c] + (double)x[D + c], 2) / sqrt(D);
    }
    want = exp(want);
    estimates(x, false, want, &mean, &one);
    estimates(x, true, want, &mean, &both);
    assert_true(1 - exp(-sum) < 0.35);
    assert_true(both < 0.5 * one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directions_are_orthogonal_in_blocks_and_normal),
        cmocka_unit_test(products_estimate_the_exponential),
        cmocka_unit_test(stabilisers_scale),
        cmocka_unit_test(both_signs_mirror_the_directions),
        cmocka_unit_test(both_signs_have_less_variance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
