/* Gradients of densities and mean shift. Over seeds, the mean gradient of points and rows is compared with
   central differences of the kernel in double, with both maps, by z-scores per entry and of all together; the
   densities are the scores of a sketch with the same seed. Mean shift finds the centres of two clusters.

   Planted and caught: gradient lower instead of true; the logarithm not divided; of_density ignored; a point
   without collisions moved to 0.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle_yoso.h"
#include "support/api_context.h"

enum { DIM = 3, POINTS = 3, ROWS = 6, MOST = (POINTS + ROWS) * DIM };

/* Points, then rows. */
struct world {
    double x[MOST];
    double centre[DIM], scale[DIM]; /* of the map */
    bool maps;
    double weight[POINTS]; /* of the densities in the loss */
    unsigned bits;
};

/* sum of weight times density, exactly. */
static double loss_of(const struct world *world)
{
    double loss = 0;
    size_t width = DIM + (world->maps ? 1 : 0);
    for (size_t q = 0; q < POINTS; q++)
        for (size_t j = 0; j < ROWS; j++) {
            double a[DIM + 1], b[DIM + 1];
            for (size_t c = 0; c < DIM; c++) {
                double centre = world->maps ? world->centre[c] : 0, scale = world->maps ? world->scale[c] : 1;
                a[c] = (world->x[q * DIM + c] - centre) / scale;
                b[c] = (world->x[(POINTS + j) * DIM + c] - centre) / scale;
            }
            a[DIM] = b[DIM] = 1;
            loss += world->weight[q] * pow(oracle_collision(a, b, width), world->bits) / ROWS;
        }
    return loss;
}

/* The Euclidean map's centre and scale, from the rows. */
static void learn(struct world *world)
{
    for (size_t c = 0; c < DIM; c++) {
        double sum = 0, squares = 0;
        for (size_t j = 0; j < ROWS; j++)
            sum += world->x[(POINTS + j) * DIM + c] / ROWS;
        for (size_t j = 0; j < ROWS; j++)
            squares += pow(world->x[(POINTS + j) * DIM + c] - sum, 2) / ROWS;
        world->centre[c] = sum;
        world->scale[c] = sqrt(squares * DIM);
    }
}

static void gradients_are_unbiased(void **state)
{
    (void)state;
    enum { SEEDS = 3000 };
    hashattn_context *context = context_with(1, NULL);
    float x[MOST], weight[POINTS] = {1, 0.5f, -2}, density[POINTS], score[POINTS], gradient[MOST];
    for (int map = 0; map < 2; map++) {
        struct world world = {.maps = map == 1, .weight = {1, 0.5, -2}, .bits = 4};
        double want[MOST], sum[MOST] = {0}, squares[MOST] = {0}, size = 0, share = 0, shares = 0;
        hashattn_fill_normal(1, (uint64_t)map, x, MOST);
        for (size_t i = 0; i < MOST; i++)
            world.x[i] = (double)x[i];
        learn(&world);
        for (size_t i = 0; i < MOST; i++) {
            double kept = world.x[i];
            world.x[i] = kept + 1e-5;
            want[i] = loss_of(&world);
            world.x[i] = kept - 1e-5;
            want[i] = (want[i] - loss_of(&world)) / 2e-5;
            world.x[i] = kept;
            size += want[i] * want[i];
        }
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            hashattn_density_options options;
            hashattn_density *sketch;
            hashattn_density_options_default(&options);
            options.num_hashes = 16;
            options.hash_bits = world.bits;
            options.map = map == 1 ? "euclidean" : "none";
            options.seed = seed;
            check_ok(context, hashattn_density_new(context, DIM, &options, &sketch));
            check_ok(context, hashattn_density_add(sketch, x + POINTS * DIM, ROWS));
            check_ok(context, hashattn_density_gradient(sketch, x, POINTS, x + POINTS * DIM, ROWS, weight, 0,
                                                        density, gradient, gradient + POINTS * DIM));
            check_ok(context, hashattn_density_score(sketch, x, POINTS, score, NULL));
            hashattn_density_free(sketch);
            double along = 0;
            for (size_t q = 0; q < POINTS; q++)
                check_near((double)density[q], (double)score[q], 1e-6, "density and score");
            for (size_t i = 0; i < MOST; i++) {
                sum[i] += (double)gradient[i];
                squares[i] += (double)gradient[i] * (double)gradient[i];
                along += (double)gradient[i] * want[i] / size;
            }
            share += along;
            shares += along * along;
        }
        for (size_t i = 0; i < MOST; i++) {
            double mean = sum[i] / SEEDS, error = sqrt((squares[i] / SEEDS - mean * mean) / SEEDS);
            check_near((mean - want[i]) / error, 0, 5, map == 1 ? "z with the map" : "z");
        }
        double mean = share / SEEDS, error = sqrt((shares / SEEDS - mean * mean) / SEEDS);
        check_near((mean - 1) / error, 0, 5, "z of all");
        assert_true(error < 0.05);
    }
    hashattn_context_free(context);
}

/* With many hashes of few bits, the estimate is the density nearly. */
static void logarithms_are_divided_by_the_density(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    float x[MOST], density[POINTS], plain[POINTS * DIM], logarithm[POINTS * DIM];
    hashattn_density *sketch;
    hashattn_fill_normal(1, 0, x, MOST);
    check_ok(context, hashattn_density_new(context, DIM, NULL, &sketch));
    check_ok(context, hashattn_density_gradient(sketch, x, POINTS, x + POINTS * DIM, ROWS, NULL, 0, density,
                                                plain, NULL));
    check_ok(context, hashattn_density_gradient(sketch, x, POINTS, x + POINTS * DIM, ROWS, NULL, 1, NULL,
                                                logarithm, NULL));
    for (size_t i = 0; i < POINTS * DIM; i++) {
        double want = density[i / DIM] > 0 ? (double)plain[i] / (double)density[i / DIM] : 0;
        check_near((double)logarithm[i], want, 1e-5 * (1 + fabs(want)), "gradient of a logarithm");
    }
    hashattn_density_free(sketch);
    hashattn_context_free(context);
}

/* Two clusters, and rows of another width of the kernel than the default. */
static void modes_are_counted(void **state)
{
    (void)state;
    enum { N = 300, WIDE = 4 };
    hashattn_context *context = context_with(2, NULL);
    float rows[N * WIDE], modes[N * WIDE];
    size_t labels[N], count;
    hashattn_density *sketch;
    hashattn_fill_normal(6, 0, rows, N * WIDE);
    for (size_t i = 0; i < N; i++)
        rows[i * WIDE + (i < 200 ? 0 : 1)] += 12;
    check_ok(context, hashattn_density_new(context, WIDE, NULL, &sketch));
    check_ok(context, hashattn_density_modes(sketch, rows, N, 20, modes, labels, &count));
    assert_int_equal(count, 2);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(labels[i], i < 200 ? 0 : 1);
    check_near((double)modes[0], 1, 0.02, "the first mode");
    check_near((double)modes[WIDE + 1], 1, 0.02, "the second mode");
    check_ok(context, hashattn_density_modes(sketch, rows, N, 0, modes, labels, &count));
    assert_true(count > 2); /* without a step, modes are groups of rows */
    check_call(context, hashattn_density_modes(sketch, rows, N, 1, NULL, labels, &count), HASHATTN_INVALID,
               "modes is NULL");
    check_call(context, hashattn_density_modes(sketch, rows, 0, 1, modes, labels, &count), HASHATTN_INVALID,
               "there are no rows");
    hashattn_density_free(sketch);
    hashattn_context_free(context);
}

/* Two clusters of 200 rows with deviation 0.3 around (4, 0, ..) and (0, -3, ..). */
static void mean_shift_finds_the_centres(void **state)
{
    (void)state;
    enum { N = 400, WIDE = 5 };
    hashattn_context *context = context_with(2, NULL);
    float *rows = malloc(N * WIDE * sizeof *rows), points[N * WIDE];
    hashattn_fill_normal(5, 0, rows, N * WIDE);
    for (size_t i = 0; i < N * WIDE; i++)
        rows[i] = 0.3f * rows[i] + (i % WIDE == 0 && i / WIDE < 200 ? 4.0f : 0.0f) -
                  (i % WIDE == 1 && i / WIDE >= 200 ? 3.0f : 0.0f);
    for (int map = 0; map < 2; map++) {
        hashattn_density_options options;
        hashattn_density *sketch;
        hashattn_density_options_default(&options);
        options.map = map == 1 ? "euclidean" : "none";
        options.num_hashes = 64;
        check_ok(context, hashattn_density_new(context, WIDE, &options, &sketch));
        if (map == 1)
            check_call(context, hashattn_density_shift(sketch, points, N, rows, N, 1), HASHATTN_INVALID,
                       "rows must be added first");
        check_ok(context, hashattn_density_add(sketch, rows, N));
        memcpy(points, rows, sizeof points);
        for (uint64_t step = 1; step <= 20; step++)
            check_ok(context, hashattn_density_shift(sketch, points, N, rows, N, step));
        for (size_t i = 0; i < N; i++) {
            double want[WIDE] = {0};
            want[i < 200 ? 0 : 1] = map == 0 ? (i < 200 ? 1 : -1) : (i < 200 ? 4 : -3);
            for (size_t c = 0; c < WIDE; c++)
                check_near((double)points[i * WIDE + c], want[c], map == 0 ? 0.06 : 0.4, "a centre");
        }
        /* A row opposite to all others collides with nothing. */
        float lost[WIDE] = {0, 0, 0, 0, -9}, other[WIDE] = {0, 0, 0, 0, 5};
        if (map == 0) {
            check_ok(context, hashattn_density_shift(sketch, lost, 1, other, 1, 1));
            check_near((double)lost[4], -1, 1e-6, "a point that stays");
        }
        hashattn_density_free(sketch);
    }
    free(rows);
    hashattn_context_free(context);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    float x[2 * DIM] = {1, 2, 3, 4, 5, 6}, density[2];
    hashattn_density_options options;
    hashattn_density *sketch;
    hashattn_density_options_default(&options);
    options.map = "euclidean";
    check_ok(context, hashattn_density_new(context, DIM, &options, &sketch));
    check_call(context, hashattn_density_gradient(sketch, x, 2, x, 2, NULL, 0, density, NULL, NULL),
               HASHATTN_INVALID, "rows must be added first");
    check_ok(context, hashattn_density_add(sketch, x, 2));
    check_ok(context, hashattn_density_gradient(sketch, x, 2, x, 2, NULL, 0, density, NULL, NULL));
    check_ok(context, hashattn_density_gradient(sketch, NULL, 0, x, 2, NULL, 0, NULL, NULL, NULL));
    check_call(context, hashattn_density_gradient(sketch, NULL, 2, x, 2, NULL, 0, density, NULL, NULL),
               HASHATTN_INVALID, "points is NULL");
    check_call(context, hashattn_density_gradient(sketch, x, 2, NULL, 2, NULL, 0, density, NULL, NULL),
               HASHATTN_INVALID, "rows is NULL");
    check_call(context, hashattn_density_shift(sketch, x, 2, x, 0, 1), HASHATTN_INVALID, "there are no rows");
    assert_int_equal(hashattn_density_shift(NULL, x, 2, x, 2, 1), HASHATTN_INVALID);
    x[4] = INFINITY;
    check_call(context, hashattn_density_shift(sketch, x, 2, x, 2, 1), HASHATTN_INVALID, "NaN or infinity");
    hashattn_density_free(sketch);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_unbiased),
        cmocka_unit_test(logarithms_are_divided_by_the_density),
        cmocka_unit_test(mean_shift_finds_the_centres),
        cmocka_unit_test(modes_are_counted),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
