/* Mechanisms that read few rows, against exact attention over the same rows: all rows with a large budget;
   no bias over seeds (z-scores against double precision); the error that a sample shows is the one that it
   makes; rows read once; budgets and tolerances; a smaller error than each control at equal rows; truncated
   and reordered caches, several rows in one call, and threads, bit for bit.
   Planted and caught: last rows that are candidates too; first rows likewise; certain rows of lsh that
   count as sampled. A sample without the seed is hidden by planes that have it, and not caught.
   Covers: kv_hashed.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/cache_case.h"

static const char *const names[] = {"hashed", "top", "top-uniform", "hamming", "lsh", "window"};
enum { NUM_NAMES = sizeof names / sizeof names[0] };

static size_t outputs(const struct cache_case *c, size_t rows)
{
    return c->cache.pages.num_sequences * c->cache.options.num_heads * rows * c->cache.options.head_dim;
}

static struct kv_options small_options(void)
{
    struct kv_options options = cache_case_options();
    options.head_dim = 32;
    options.scale = 0.35f; /* scores of deviation 2 */
    options.budget = 0.1;
    return options;
}

/* |out - exact| / |exact| over all outputs. */
static double relative_error(const float *out, const double *exact, size_t n)
{
    double wrong = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        wrong += ((double)out[i] - exact[i]) * ((double)out[i] - exact[i]);
        size += exact[i] * exact[i];
    }
    return sqrt(wrong / size);
}

static double error_of(struct cache_case *c, size_t rows, const float *query)
{
    double bound, *exact = cache_case_exact(c, rows, query, &bound), error;
    float *out = cache_case_attend(c, rows, query);
    error = relative_error(out, exact, outputs(c, rows));
    free(out);
    free(exact);
    return error;
}

static void a_large_budget_reads_all_rows(void **state)
{
    (void)state;
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t m = 0; m < NUM_NAMES; m++)
            for (int form = 0; form < 4; form++) {
                struct cache_case c;
                struct kv_options options = small_options();
                double bound;
                options.dtype = form % 2 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
                options.budget = 1000;
                options.window = form < 2 ? 0 : 70;
                options.num_sequences = 2;
                cache_case_new(&c, (*table)->name, 2, names[m], &options);
                uint8_t mask[2 * 200];
                for (size_t i = 0; i < sizeof mask; i++)
                    mask[i] = i < 200 || i >= 398; /* the second has 2 rows */
                cache_case_append(&c, 200, mask);
                float *query = cache_case_query(&c, 5), *out = cache_case_attend(&c, 5, query);
                double *exact = cache_case_exact(&c, 5, query, &bound);
                check_near_all(out, exact, outputs(&c, 5), bound, names[m]);
                free(query);
                free(out);
                free(exact);
                cache_case_free(&c);
            }
}

/* Over seeds, the mean of <out, exact> / |exact|^2 is 1, up to the bias of a ratio, which is of the order of
   its variance. */
static void a_sample_has_no_bias(void **state)
{
    (void)state;
    enum { SEEDS = 150 };
    double sum = 0, squares = 0, shown = 0, made = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct cache_case c;
        struct kv_options options = small_options();
        double bound, along = 0, size = 0;
        options.seed = seed;
        cache_case_new(&c, "auto", 1, "hashed", &options);
        cache_case_append(&c, 3000, NULL);
        float *query = cache_case_query(&c, 1), *out = cache_case_attend(&c, 1, query);
        double *exact = cache_case_exact(&c, 1, query, &bound);
        for (size_t i = 0; i < outputs(&c, 1); i++) {
            along += (double)out[i] * exact[i];
            size += exact[i] * exact[i];
        }
        sum += along / size - 1;
        squares += (along / size - 1) * (along / size - 1);
        shown += c.cache.report.error / SEEDS;
        made += relative_error(out, exact, outputs(&c, 1)) / SEEDS;
        check_near(c.cache.report.rows_read, 300, 3, "rows read");
        free(query);
        free(out);
        free(exact);
        cache_case_free(&c);
    }
    double mean = sum / SEEDS, deviation = sqrt(squares / SEEDS);
    check_near(mean, 0, 4 * deviation / sqrt(SEEDS) + 0.2 * made * made, "bias along the exact output");
    assert_true(made < 1);
    check_near(shown / made, 1, 0.3, "the error shown, by the error made");
}

/* One of the first rows, one of the middle and one of the last have all the weight, in equal parts. */
static void no_row_is_read_twice(void **state)
{
    (void)state;
    enum { N = 3008 }; /* whole blocks: all rows have codes */
    static const size_t heavy[] = {2, 1234, N - 7};
    struct cache_case c;
    struct kv_options options = small_options();
    size_t d = options.head_dim, width = options.kv_heads * d, heads = options.num_heads;
    float *key = calloc(N * width, sizeof *key), *value = calloc(N * width, sizeof *value);
    float query[4 * 32], out[4 * 32];
    cache_case_new(&c, "auto", 1, "hashed", &options);
    random_normals(random_key(3, RANDOM_BENCH, 0), 0, key, N * width);
    random_normals(random_key(3, RANDOM_BENCH, 1), 0, value, N * width);
    for (size_t i = 0; i < heads * d; i++)
        query[i] = i % 2 ? 2 : -2;
    for (size_t j = 0; j < 3; j++)
        for (size_t i = 0; i < width; i++) {
            key[heavy[j] * width + i] = query[i % d];
            value[heavy[j] * width + i] = (float)j;
        }
    struct kv_rows keys = {key, DTYPE_FLOAT32, 0, width, d}, values = keys;
    values.data = value;
    check_status(&c.host.host, kv_cache_append(&c.cache, N, keys, values, NULL), HASHATTN_OK, NULL);
    struct kv_rows queries = {query, DTYPE_FLOAT32, 0, heads * d, d}, outs = queries;
    outs.data = out;
    check_status(&c.host.host, kv_cache_attend(&c.cache, 1, queries, outs), HASHATTN_OK, NULL);
    for (size_t i = 0; i < heads * d; i++)
        check_near((double)out[i], 1, 0.01, "the mean of three values");
    free(key);
    free(value);
    cache_case_free(&c);
}

static void it_beats_the_controls(void **state)
{
    (void)state;
    double error[NUM_NAMES], rows[NUM_NAMES];
    for (size_t m = 0; m < NUM_NAMES; m++) {
        struct cache_case c;
        struct kv_options options = small_options();
        options.budget = 250;
        cache_case_new(&c, "auto", 2, names[m], &options);
        cache_case_append(&c, 4000, NULL);
        float *query = cache_case_query(&c, 16);
        error[m] = error_of(&c, 16, query);
        rows[m] = c.cache.report.rows_read;
        free(query);
        cache_case_free(&c);
    }
    for (size_t m = 1; m < NUM_NAMES; m++) {
        if (error[0] >= error[m])
            fail_msg("hashed errs by %.3f, %s by %.3f", error[0], names[m], error[m]);
        /* Of equal Hamming scores all are left out; lsh takes no more than collide. */
        assert_true(rows[m] <= 252 && rows[m] >= (strcmp(names[m], "lsh") == 0 ? 40 : 235));
    }
}

static void a_tolerance_is_met(void **state)
{
    (void)state;
    double before = 0;
    for (double tolerance = 0.4; tolerance > 0.04; tolerance /= 2) {
        struct cache_case c;
        struct kv_options options = small_options();
        options.tolerance = tolerance;
        options.scale = 0.7f; /* with softer scores, half of the rows would be needed */
        cache_case_new(&c, "auto", 2, "hashed", &options);
        cache_case_append(&c, 4000, NULL);
        float *query = cache_case_query(&c, 10);
        assert_true(error_of(&c, 10, query) < 1.3 * tolerance);
        assert_true(c.cache.report.error < tolerance);
        assert_true(c.cache.report.rows_read > before);
        before = c.cache.report.rows_read;
        free(query);
        cache_case_free(&c);
    }
    assert_true(before > 600);
}

/* The rows that both caches have, one after another and in one call. */
static void check_equal(struct cache_case *a, struct cache_case *b, size_t rows, const char *what)
{
    float *query = cache_case_query(a, rows);
    float *first = cache_case_attend(a, rows, query), *second = cache_case_attend(b, rows, query);
    check_same_bits(first, second, outputs(a, rows) * sizeof *first, what);
    free(query);
    free(first);
    free(second);
}

static void a_changed_cache_equals_a_fresh_one(void **state)
{
    (void)state;
    for (size_t m = 0; m < NUM_NAMES; m++) {
        struct cache_case c, fresh;
        struct kv_options options = small_options();
        const size_t beams[] = {1, 0};
        options.num_sequences = 2;
        options.dtype = m % 2 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
        cache_case_new(&c, "auto", 2, names[m], &options);
        cache_case_new(&fresh, "auto", 1, names[m], &options);
        cache_case_append(&fresh, 1100, NULL);
        /* The same 700 rows in both sequences, then others that go, then the same 400. */
        cache_case_append(&c, 1100, NULL);
        for (size_t s = 0; s < 2; s++)
            cache_case_truncate(&c, s, 700);
        cache_case_reorder(&c, beams, 2);
        uint64_t drawn = c.drawn;
        cache_case_append(&c, 300, NULL); /* full pages, then cut inside of one */
        for (size_t s = 0; s < 2; s++)
            cache_case_truncate(&c, s, 700);
        cache_case_reorder(&c, beams, 2);
        c.drawn = drawn;
        size_t d = options.head_dim, size = options.kv_heads * d;
        float *key = calloc(2 * 400 * size, sizeof *key), *value = calloc(2 * 400 * size, sizeof *value);
        for (size_t s = 0; s < 2; s++) {
            memcpy(key + s * 400 * size, fresh.key[s] + 700 * size, 400 * size * sizeof *key);
            memcpy(value + s * 400 * size, fresh.value[s] + 700 * size, 400 * size * sizeof *key);
        }
        struct kv_rows keys = {key, DTYPE_FLOAT32, 400 * size, size, d}, values = keys;
        values.data = value;
        check_status(&c.host.host, kv_cache_append(&c.cache, 400, keys, values, NULL), HASHATTN_OK, NULL);
        free(key);
        free(value);
        check_equal(&c, &fresh, 1, names[m]);
        check_equal(&c, &fresh, 20, names[m]);
        cache_case_free(&c);
        cache_case_free(&fresh);
    }
}

/* Ten rows in one call have the bits of ten calls of one row each: a row depends on what it sees alone. */
static void rows_of_a_call_are_rows_of_their_own(void **state)
{
    (void)state;
    struct cache_case whole;
    struct kv_options options = small_options();
    cache_case_new(&whole, "auto", 2, "hashed", &options);
    cache_case_append(&whole, 1090, NULL);
    float *query = cache_case_query(&whole, 10), *out = cache_case_attend(&whole, 10, query);
    size_t d = options.head_dim, heads = options.num_heads;
    for (size_t r = 10; r-- > 0;) {
        float one[4 * 32];
        cache_case_truncate(&whole, 0, 1080 + r + 1);
        for (size_t h = 0; h < heads; h++)
            memcpy(one + h * d, query + (h * 10 + r) * d, d * sizeof *one);
        float *alone = cache_case_attend(&whole, 1, one);
        for (size_t h = 0; h < heads; h++)
            check_same_bits(alone + h * d, out + (h * 10 + r) * d, d * sizeof *one, "a row of its own");
        free(alone);
    }
    free(query);
    free(out);
    cache_case_free(&whole);
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    struct cache_case c[3];
    struct kv_options options = small_options();
    for (int t = 0; t < 3; t++) {
        cache_case_new(&c[t], "auto", 1 + t, "hashed", &options);
        cache_case_append(&c[t], 1500, NULL);
    }
    check_equal(&c[0], &c[1], 3, "2 threads");
    check_equal(&c[0], &c[2], 3, "3 threads");
    for (int t = 0; t < 3; t++)
        cache_case_free(&c[t]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_budget_reads_all_rows),
        cmocka_unit_test(a_sample_has_no_bias),
        cmocka_unit_test(no_row_is_read_twice),
        cmocka_unit_test(it_beats_the_controls),
        cmocka_unit_test(a_tolerance_is_met),
        cmocka_unit_test(a_changed_cache_equals_a_fresh_one),
        cmocka_unit_test(rows_of_a_call_are_rows_of_their_own),
        cmocka_unit_test(threads_do_not_change_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
