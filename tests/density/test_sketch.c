/* Sketches of rows. Over 2,000 seeds, the scores of a few points are compared with the kernel in double
   precision: z-scores of each point and of all together, which also reject a bias of 2 %. The standard error
   is compared with the spread over the seeds; orthogonal hashes repel each other, so it may be too large.
   Merging, taking away, blocks, threads and instruction sets must not change a bit.

   Planted and caught: one row more in the mean; the bit 0 of a code ignored; the counts of hash 0 read for
   all; the last 15 hashes not counted; a failed removal not undone; the error of one count instead of the
   mean; wide codes read as narrow ones; the rows of a merged sketch not added; the map learned anew in each
   call; a map learned although there was no memory for the planes; scratch that does not grow with the rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/sketch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "density/number_rows.h"
#include "oracle/oracle_yoso.h"
#include "support/check.h"

enum { DIM = 5, ROWS = 40, POINTS = 6 };

static const struct kernels *widest(void)
{
    return kernels_named(NULL, &(const char *){0});
}

static struct sketch *sketch_of(struct host *host, struct pool *pool, const struct sketch_options *options,
                                size_t dim)
{
    struct sketch *sketch;
    check_status(host, sketch_new(host, widest(), pool, options, dim, &sketch), HASHATTN_OK, NULL);
    return sketch;
}

static void add(struct host *host, struct sketch *sketch, const float *x, size_t n)
{
    check_status(host, sketch_add(host, sketch, x, n), HASHATTN_OK, NULL);
}

/* Clustered, with a zero row. */
static void fill(float *x, size_t n, size_t dim, uint64_t key)
{
    random_normals(key, 0, x, n * dim);
    for (size_t i = 0; i < n; i++)
        x[i * dim] += i % 3 == 0 ? 2 : 0;
    memset(x + (n - 1) * dim, 0, dim * sizeof *x);
}

/* ---- the mean ------------------------------------------------------------------------------------------ */

static void exact_densities(const float *x, const float *points, unsigned bits, double *exact)
{
    for (size_t q = 0; q < POINTS; q++) {
        exact[q] = 0;
        for (size_t j = 0; j < ROWS; j++) {
            double a[DIM], b[DIM];
            for (size_t c = 0; c < DIM; c++) {
                a[c] = (double)points[q * DIM + c];
                b[c] = (double)x[j * DIM + c];
            }
            exact[q] += pow(oracle_collision(a, b, DIM), bits) / ROWS;
        }
    }
}

static void scores_are_unbiased(void **state)
{
    (void)state;
    enum { SEEDS = 2000 };
    struct host host;
    host_init(&host);
    float x[ROWS * DIM], points[POINTS * DIM], density[POINTS], error[POINTS];
    double exact[POINTS], sum[POINTS] = {0}, squares[POINTS] = {0}, errors[POINTS] = {0}, share = 0,
                          shares = 0;
    fill(x, ROWS, DIM, 1);
    fill(points, POINTS, DIM, 2);
    exact_densities(x, points, 4, exact);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sketch_options options = {.num_hashes = 20, .hash_bits = 4, .seed = seed};
        struct sketch *sketch = sketch_of(&host, NULL, &options, DIM);
        add(&host, sketch, x, ROWS);
        check_status(&host, sketch_score(&host, sketch, points, POINTS, density, error), HASHATTN_OK, NULL);
        sketch_free(&host, sketch);
        double all = 0;
        for (size_t q = 0; q < POINTS; q++) {
            sum[q] += (double)density[q];
            squares[q] += (double)density[q] * (double)density[q];
            errors[q] += (double)error[q] * (double)error[q];
            all += (double)density[q] / exact[q] / POINTS;
        }
        share += all;
        shares += all * all;
    }
    for (size_t q = 0; q < POINTS; q++) {
        double mean = sum[q] / SEEDS, variance = squares[q] / SEEDS - mean * mean;
        check_near((mean - exact[q]) / sqrt(variance / SEEDS), 0, 5, "z of a point");
        double ratio = variance / (errors[q] / SEEDS);
        assert_true(ratio > 0.4 && ratio < 1.1);
    }
    double mean = share / SEEDS, deviation = sqrt((shares / SEEDS - mean * mean) / SEEDS);
    check_near((mean - 1) / deviation, 0, 5, "z of all points");
    assert_true(0.02 / deviation > 5); /* a bias of 2 % would be rejected */
}

/* ---- the same bits ------------------------------------------------------------------------------------- */

enum { MANY = 9000, WIDE = 7 };

struct scores {
    float density[50], error[50];
};

static struct scores scores_of(struct host *host, struct sketch *sketch)
{
    float points[50 * WIDE];
    struct scores scores;
    fill(points, 50, WIDE, 3);
    check_status(host, sketch_score(host, sketch, points, 50, scores.density, scores.error), HASHATTN_OK,
                 NULL);
    return scores;
}

static void merging_and_taking_away_change_no_bit(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    float *x = malloc(MANY * WIDE * sizeof *x);
    fill(x, MANY, WIDE, 4);
    for (size_t bits = 9; bits <= 18; bits += 9) /* narrow and wide codes */
        for (int map = DENSITY_MAP_NONE; map <= DENSITY_MAP_EUCLIDEAN; map++) {
            struct sketch_options options = {
                .num_hashes = 33, .hash_bits = bits, .map = (enum density_map)map, .seed = 5};
            struct sketch *all = sketch_of(&host, NULL, &options, WIDE), *parts[2];
            add(&host, all, x, MANY);
            struct scores want = scores_of(&host, all);
            for (size_t i = 0; i < 2; i++) {
                parts[i] = sketch_of(&host, NULL, &options, WIDE);
                if (map == DENSITY_MAP_EUCLIDEAN) {
                    memcpy(parts[i]->centre, all->centre, sizeof(float) * WIDE);
                    memcpy(parts[i]->scale, all->scale, sizeof(float) * WIDE);
                    parts[i]->mapped = true;
                }
            }
            add(&host, parts[1], x + 5000 * WIDE, MANY - 5000);
            add(&host, parts[0], x, 1);
            add(&host, parts[0], x + WIDE, 4999);
            check_status(&host, sketch_merge(&host, parts[0], parts[1]), HASHATTN_OK, NULL);
            struct scores got = scores_of(&host, parts[0]);
            check_same_bits(&got, &want, sizeof got, "merged");
            check_same_bits(parts[0]->counts, all->counts, sketch_counts(all) * 8, "counts");
            check_status(&host, sketch_remove(&host, all, x, 5000), HASHATTN_OK, NULL);
            check_same_bits(parts[1]->counts, all->counts, sketch_counts(all) * 8,
                            "counts without 5,000 rows");
            assert_true(all->rows == MANY - 5000);
            for (size_t i = 0; i < 2; i++)
                sketch_free(&host, parts[i]);
            sketch_free(&host, all);
        }
    free(x);
}

static void threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    float *x = malloc(MANY * WIDE * sizeof *x);
    fill(x, MANY, WIDE, 6);
    struct sketch_options options = {
        .num_hashes = 40, .hash_bits = 9, .map = DENSITY_MAP_EUCLIDEAN, .seed = 7};
    struct scores want;
    memset(&want, 0, sizeof want);
    bool first = true;
    for (const char *const *name = kernels_names(); *name != NULL; name++)
        for (int threads = 1; threads <= 3; threads += 2) {
            const char *why;
            const struct kernels *kernels = kernels_named(*name, &why);
            if (kernels == NULL)
                continue;
            struct pool *pool;
            struct sketch *sketch;
            check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
            check_status(&host, sketch_new(&host, kernels, pool, &options, WIDE, &sketch), HASHATTN_OK, NULL);
            add(&host, sketch, x, MANY);
            struct scores got = scores_of(&host, sketch);
            if (first)
                want = got;
            check_same_bits(&got, &want, sizeof got, *name);
            first = false;
            sketch_free(&host, sketch);
            pool_free(&host, pool);
        }
    free(x);
}

/* ---- what is refused ----------------------------------------------------------------------------------- */

static void bad_rows_change_nothing(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    enum { N = 5000 };
    float *x = malloc((N + 1) * WIDE * sizeof *x), density;
    fill(x, N + 1, WIDE, 8);
    struct sketch_options options = {.num_hashes = 4, .hash_bits = 6, .map = DENSITY_MAP_EUCLIDEAN};
    struct sketch *sketch = sketch_of(&host, NULL, &options, WIDE);
    check_status(&host, sketch_score(&host, sketch, x, 1, &density, NULL), HASHATTN_INVALID,
                 "the sketch has no rows");
    check_status(&host, sketch_remove(&host, sketch, x, 1), HASHATTN_INVALID,
                 "1 rows cannot be taken away from 0");
    add(&host, sketch, x, N);
    size_t bytes = sketch_counts(sketch) * sizeof *sketch->counts;
    uint64_t *counts = malloc(bytes);
    memcpy(counts, sketch->counts, bytes);
    static const struct {
        float number;
        const char *name;
    } bad[] = {{NAN, "row 4500, column 3 is nan"}, {-INFINITY, "row 4500, column 3 is -inf"}};
    for (size_t i = 0; i < 2; i++) {
        float kept = x[4500 * WIDE + 3];
        x[4500 * WIDE + 3] = bad[i].number;
        check_status(&host, sketch_add(&host, sketch, x, N), HASHATTN_INVALID, bad[i].name);
        check_status(&host, sketch_remove(&host, sketch, x, N), HASHATTN_INVALID, bad[i].name);
        check_status(&host, sketch_score(&host, sketch, x + 4500 * WIDE, 1, &density, NULL), HASHATTN_INVALID,
                     "row 0, column 3");
        x[4500 * WIDE + 3] = kept;
    }
    /* A row that is far from all others, behind many that were added. */
    for (size_t c = 0; c < WIDE; c++)
        x[(N - 1) * WIDE + c] = c == 2 ? -90.0f : 0;
    check_status(&host, sketch_remove(&host, sketch, x, N), HASHATTN_INVALID,
                 "at least one of the 5000 was never added");
    assert_true(sketch->rows == N);
    check_same_bits(counts, sketch->counts, bytes, "counts after a failure");
    free(counts);
    free(x);
    sketch_free(&host, sketch);
}

static void different_sketches_are_not_merged(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    float x[20 * DIM];
    fill(x, 20, DIM, 9);
    static const struct {
        struct sketch_options options;
        size_t dim;
        const char *part;
    } others[] = {
        {{4, 6, DENSITY_MAP_EUCLIDEAN, 1}, DIM - 1, "the number of columns is 5 in one and 4 in the other"},
        {{5, 6, DENSITY_MAP_EUCLIDEAN, 1}, DIM, "num_hashes is 4 in one and 5 in the other"},
        {{4, 7, DENSITY_MAP_EUCLIDEAN, 1}, DIM, "hash_bits is 6 in one and 7 in the other"},
        {{4, 6, DENSITY_MAP_NONE, 1}, DIM, "the map is euclidean in one and none in the other"},
        {{4, 6, DENSITY_MAP_EUCLIDEAN, 2}, DIM, "seed is 1 in one and 2 in the other"},
        {{4, 6, DENSITY_MAP_EUCLIDEAN, 1}, DIM, "the centre and scale of their Euclidean maps"}};
    struct sketch_options options = {4, 6, DENSITY_MAP_EUCLIDEAN, 1};
    struct sketch *sketch = sketch_of(&host, NULL, &options, DIM);
    add(&host, sketch, x, 20);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct sketch *other = sketch_of(&host, NULL, &others[i].options, others[i].dim);
        check_status(&host, sketch_merge(&host, sketch, other), HASHATTN_INVALID, others[i].part);
        add(&host, other, x, 10);
        check_status(&host, sketch_merge(&host, sketch, other), HASHATTN_INVALID, others[i].part);
        sketch_free(&host, other);
    }
    assert_true(sketch->rows == 20);
    sketch->rows = SKETCH_MOST_ROWS;
    check_status(&host, sketch_add(&host, sketch, x, 1), HASHATTN_INVALID, "can be counted");
    check_status(&host, sketch_merge(&host, sketch, sketch), HASHATTN_INVALID, "can be counted");
    sketch_free(&host, sketch);
    struct sketch_options large = {4096, 24, DENSITY_MAP_NONE, 1};
    check_status(&host, sketch_new(&host, widest(), NULL, &large, 1 << 20, &sketch), HASHATTN_REFUSED,
                 "the planes have over");
}

/* The first block of the first call determines the map; one hash has no standard error. */
static void the_map_is_learned_once(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    float *x = malloc(MANY * WIDE * sizeof *x), density, error;
    fill(x, MANY, WIDE, 10);
    for (size_t i = number_rows_block(WIDE); i < MANY; i++)
        x[i * WIDE] = 1000;
    struct sketch_options options = {1, 6, DENSITY_MAP_EUCLIDEAN, 1};
    struct sketch *sketch = sketch_of(&host, NULL, &options, WIDE);
    add(&host, sketch, x, MANY);
    assert_true(fabsf(sketch->centre[0]) < 2 && sketch->scale[0] < 10);
    float centre = sketch->centre[1];
    add(&host, sketch, x + WIDE, 100);
    assert_true(centre == sketch->centre[1]);
    check_status(&host, sketch_score(&host, sketch, x, 1, &density, &error), HASHATTN_OK, NULL);
    assert_true(density > 0 && isnan(error));
    free(x);
    sketch_free(&host, sketch);
}

/* Blocks of more and more rows hash as one does; without memory nothing changes. */
static void memory_grows_with_the_rows(void **state)
{
    (void)state;
    struct failing_host failing;
    struct host *host = &failing.host;
    struct pool *pool;
    float *x = malloc(MANY * WIDE * sizeof *x);
    fill(x, MANY, WIDE, 11);
    struct sketch_options options = {7, 6, DENSITY_MAP_NONE, 3};
    failing_host_init(&failing, -1);
    check_status(host, pool_new(host, 3, &pool), HASHATTN_OK, NULL);
    struct sketch *whole = sketch_of(host, pool, &options, WIDE),
                  *parts = sketch_of(host, pool, &options, WIDE);
    add(host, whole, x, MANY);
    for (size_t first = 0, count = 1; first < MANY; first += count, count = size_min(8 * count, MANY - first))
        add(host, parts, x + first * WIDE, count);
    check_same_bits(parts->counts, whole->counts, sketch_counts(whole) * sizeof *whole->counts, "counts");
    sketch_free(host, whole);
    sketch_free(host, parts);
    options.map = DENSITY_MAP_EUCLIDEAN;
    for (long i = 0; i < 5; i++) {
        struct sketch *sketch = sketch_of(host, pool, &options, WIDE);
        failing.until_failure = failing.calls + i;
        hashattn_status status = sketch_add(host, sketch, x, 500);
        failing.until_failure = -1;
        assert_int_equal(status, i < 4 ? HASHATTN_NO_MEMORY : HASHATTN_OK);
        assert_true(sketch->rows == (status == HASHATTN_OK ? 500 : 0));
        assert_true(sketch->mapped == (status == HASHATTN_OK));
        sketch_free(host, sketch);
    }
    pool_free(host, pool);
    assert_int_equal(failing.outstanding, 0);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_unbiased),
        cmocka_unit_test(merging_and_taking_away_change_no_bit),
        cmocka_unit_test(threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(bad_rows_change_nothing),
        cmocka_unit_test(different_sketches_are_not_merged),
        cmocka_unit_test(the_map_is_learned_once),
        cmocka_unit_test(memory_grows_with_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
