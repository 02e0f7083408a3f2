/* Softmax attention of large queries and keys, on every instruction set: the weights of forward and
   backward are the same numbers, each is at most 1, and those of a query sum to 1. Values and dout are the
   identity, so out holds the weights of forward and dvalue those of backward. Head sizes whose square root
   is a power of two and others. Bugs planted and caught: the maximum of scaled products with the
   exponential of unscaled ones; maximum and logarithm of the sum kept as one number; the maximum of a
   query in several groups begun above its scores; what forward saved not read by backward; dout not
   checked for size; the sum over two places of a key on a ring not checked; learned terms not checked;
   gradients of yoso and yoso-e divided by the lengths of short queries or keys without a limit.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "parts/tiles/relative_terms.h"
#include "support/attention_case.h"
#include "support/check.h"
#include "support/group_case.h"

/* Mechanisms that are softmax over some keys, with options that leave rows unchanged. */
static const struct {
    const char *mechanism, *settings;
    bool causal;
} kinds[] = {
    {"softmax", "", false},
    {"softmax", "", true},
    {"local", "block_size=11", false},
    {"local", "block_size=60", true},
    {"local", "block_size=7 wrap=true relative=true", false},
    {"lha", "num_buckets=3 mode=paper", false},
    {"lha", "num_buckets=5 mode=paper membership=whole", true},
    {"lsh", "num_buckets=4 mode=paper", true},
    {"random", "num_buckets=2 mode=paper joint=true", false},
    {"smyrf", "cluster_size=9 rounds=2", false},
    {"longformer", "window=14 global_tokens=2", false},
    {"longformer", "window=9 global_tokens=1", true},
    {"bigbird", "block_size=5 random_blocks=2", false},
    {"sparse", "block_size=6 summary_width=2", true},
    {"sparse", "block_size=5 pattern=strided", false},
    {"probsparse", "factor=2", false},
    {"probsparse", "factor=1", true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* n queries and keys drawn from N(0, size^2); values and dout are the identity. */
static struct attention_case weights_case(size_t kind, const void *options, size_t n, size_t d, float size)
{
    struct attention_case data =
        group_case_new(kinds[kind].mechanism, options, n, n, d, n, kinds[kind].causal);
    for (size_t i = 0; i < n * d; i++) {
        data.query[i] *= size;
        data.key[i] *= size;
    }
    for (size_t i = 0; i < n * n; i++)
        data.value[i] = data.dout[i] = i % n == i / n;
    return data;
}

static void check_weights(const struct attention_result *result, size_t n, const char *what)
{
    double room = ((double)n + 16) * FLT_EPSILON;
    for (size_t i = 0; i < n; i++) {
        double forward = 0, backward = 0;
        for (size_t j = 0; j < n; j++) {
            double p = (double)result->out[i * n + j], again = (double)result->dvalue[j * n + i];
            assert_true(p >= 0 && p <= 1 + 2 * FLT_EPSILON); /* a weight, or the sum for a key met twice */
            assert_true(again >= 0 && again <= 1 + 2 * FLT_EPSILON);
            check_near(again, p, room * p + 4 * FLT_MIN, what);
            forward += p;
            backward += again;
        }
        if (forward == 0 && backward == 0) /* in no group */
            continue;
        check_near(forward, 1, room, what);
        check_near(backward, 1, room, what);
    }
}

static void check_kind(size_t kind, size_t n, size_t d, float size, const struct kernels *kernels)
{
    void *options = group_case_options(kinds[kind].mechanism, kinds[kind].settings);
    struct attention_case data = weights_case(kind, options, n, d, size);
    char what[128];
    snprintf(what, sizeof what, "%s %s, %s, n %zu, d %zu, size %g", kinds[kind].mechanism,
             kinds[kind].settings, kernels->name, n, d, (double)size);
    data.kernels = kernels;
    struct attention_result result = attention_case_run(&data);
    check_weights(&result, n, what);
    attention_result_free(&result);
    attention_case_free(&data);
    free(options);
}

static void weights_sum_to_one_in_both_directions(void **state)
{
    (void)state;
    static const float sizes[] = {1, 10, 100, 1e4f, 1e9f, 1e11f, 1e15f};
    static const size_t dims[] = {7, 32, 64};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (size_t d = 0; d < 3; d++)
                    check_kind(kind, d == 1 ? 150 : 40, dims[d], sizes[s], *kernels);
}

/* With one query and one key, out is the value and dvalue is dout, whatever the score. lha and its
   controls meet the key in every group and add up the results. */
static void one_key_weighs_one(void **state)
{
    (void)state;
    enum { D = 128 };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (float size = 1; size < 1e17f; size *= 31.7f) {
                void *options = group_case_options(kinds[kind].mechanism, kinds[kind].settings);
                struct attention_case data = weights_case(kind, options, 1, D, size);
                for (size_t c = 0; c < D; c++)
                    data.query[c] = data.key[c] = size;
                data.kernels = *kernels;
                struct attention_result result = attention_case_run(&data);
                check_near((double)result.out[0], 1, 8 * FLT_EPSILON, "out");
                check_near((double)result.dvalue[0], 1, 8 * FLT_EPSILON, "dvalue");
                attention_result_free(&result);
                attention_case_free(&data);
                free(options);
            }
}

/* ---- beyond float32 products
   ---------------------------------------------------------------------------- */

/* Rows that are normalized are never large, but values and dout may be. */
static const struct {
    const char *mechanism, *settings;
    bool causal;
} normed[] = {
    {"lha", "num_buckets=3", false},     {"lha", "num_buckets=4", true},
    {"lsh", "num_buckets=3", false},     {"reformer", "chunk_size=7 rounds=2", false},
    {"reformer", "chunk_size=5", true},  {"routing", "num_clusters=4", false},
    {"routing", "num_clusters=3", true},
};
enum { NORMED = sizeof normed / sizeof *normed };

static struct attention_case any_case(size_t kind, void **options, size_t n, size_t d)
{
    bool plain = kind < KINDS;
    const char *mechanism = plain ? kinds[kind].mechanism : normed[kind - KINDS].mechanism;
    *options = group_case_options(mechanism, plain ? kinds[kind].settings : normed[kind - KINDS].settings);
    return group_case_new(mechanism, *options, n, n, d, n,
                          plain ? kinds[kind].causal : normed[kind - KINDS].causal);
}

/* Numbers between -3.4e38 and 3.4e38, one in twenty small. */
static void fill_huge(float *x, size_t count, uint64_t seed)
{
    struct random random = random_open(seed);
    for (size_t i = 0; i < count; i++) {
        float u = 2 * random_unit(&random) - 1;
        x[i] = random_below(&random, 20) == 0 ? u : u * FLT_MAX;
    }
}

static void check_finite(const float *x, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            fail_msg("%s[%zu] is %g", what, i, (double)x[i]);
}

static struct attention_result run_finite(const struct attention_case *data, size_t n, size_t d)
{
    struct attention_result result = attention_case_run(data);
    check_finite(result.out, n * n, "out");
    check_finite(result.dquery, n * d, "dquery");
    check_finite(result.dkey, n * d, "dkey");
    check_finite(result.dvalue, n * n, "dvalue");
    check_finite(result.dparams, result.param_count, "dparams");
    return result;
}

/* Weights of huge queries and keys, then with huge values and dout too, in both precisions. */
static void everything_is_finite_for_all_that_is(void **state)
{
    (void)state;
    enum { N = 33, D = 32 };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t kind = 0; kind < KINDS + NORMED; kind++)
            for (int precision = 0; precision < PRECISION_COUNT; precision++) {
                void *options;
                struct attention_case data = any_case(kind, &options, N, D);
                data.kernels = *kernels;
                data.precision = (enum precision)precision;
                fill_huge(data.query, N * D, 1);
                fill_huge(data.key, N * D, 2);
                for (size_t i = 0; i < N * N; i++)
                    data.value[i] = data.dout[i] = i % N == i / N;
                struct attention_result result = run_finite(&data, N, D);
                if (precision == PRECISION_FLOAT32)
                    check_weights(&result, N, data.mechanism->name);
                attention_result_free(&result);
                fill_huge(data.value, N * N, 3);
                fill_huge(data.dout, N * N, 4);
                data.start = 1;
                result = run_finite(&data, N, D);
                data.threads = 3;
                struct attention_result many = run_finite(&data, N, D);
                attention_case_same_bits(&result, &many, &data, "three threads");
                attention_result_free(&many);
                attention_result_free(&result);
                attention_case_free(&data);
                free(options);
            }
}

static void scale(float *x, size_t count, int exponent)
{
    for (size_t i = 0; i < count; i++)
        x[i] = ldexpf(x[i], exponent);
}

/* got is 2^exponent times plain, up to rounding in sums of n + d numbers, each at most the largest in
   size. */
static void check_scaled(const float *got, const float *plain, size_t count, int exponent, double roundings,
                         const char *what)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)plain[i]));
    for (size_t i = 0; i < count; i++)
        check_near(ldexp((double)got[i], -exponent), (double)plain[i], 8 * roundings * FLT_EPSILON * largest,
                   what);
}

/* true if the scale of queries and keys decides which of them meet, or queries are keys too. */
static bool depends_on_scale(const char *mechanism)
{
    static const char *const names[] = {"lha", "lsh", "smyrf", "reformer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(mechanism, names[i]) == 0)
            return true;
    return false;
}

/* Inputs too large for float32 give the results of the same inputs without their powers of two. If membership
   in groups depends on the scale, only values and dout are scaled, likewise if distances have terms besides
   q k. */
static void powers_of_two_go_through(void **state)
{
    (void)state;
    enum { N = 50, D = 16, VALUE = 122, DOUT = -120 };
    for (size_t kind = 0; kind < KINDS + NORMED; kind++)
        for (int rows = 0; rows < 2; rows++) {
            void *options;
            struct attention_case data = any_case(kind, &options, N, D);
            const struct parameter_sizes sizes = {D, N, N};
            size_t params = attention_param_count(data.mechanism, options, &sizes);
            bool hashed = depends_on_scale(data.mechanism->name);
            int query = rows && !hashed && params == 0 ? 120 : 0;
            struct attention_result plain = attention_case_run(&data);
            scale(data.query, N * D, query);
            scale(data.key, N * D, -query);
            scale(data.value, N * N, VALUE);
            scale(data.dout, N * N, DOUT);
            struct attention_result large = attention_case_run(&data);
            double roundings = N + D;
            check_scaled(large.out, plain.out, N * N, VALUE, roundings, "out");
            check_scaled(large.dquery, plain.dquery, N * D, VALUE + DOUT - query, roundings, "dquery");
            check_scaled(large.dkey, plain.dkey, N * D, VALUE + DOUT + query, roundings, "dkey");
            check_scaled(large.dvalue, plain.dvalue, N * N, DOUT, roundings, "dvalue");
            if (!hashed)
                check_scaled(large.dparams, plain.dparams, params, VALUE + DOUT, roundings, "dparams");
            attention_result_free(&plain);
            attention_result_free(&large);
            attention_case_free(&data);
            free(options);
        }
}

/* Forward checks queries, keys and values, backward checks dout. What forward saved tells backward to use
   double even if dout is small; dout may also be the large one. */
static void backward_follows_forward_or_its_dout(void **state)
{
    (void)state;
    enum { N = 40, D = 8 };
    for (size_t kind = 0; kind < KINDS + NORMED; kind++)
        for (int large = 0; large < 2; large++) {
            void *options;
            struct attention_case data = any_case(kind, &options, N, D);
            fill_huge(large ? data.dout : data.value, N * N, 3);
            struct attention_result result = run_finite(&data, N, D);
            attention_result_free(&result);
            attention_case_free(&data);
            free(options);
        }
}

/* The mechanism itself checks learned terms. */
static void large_terms_are_noticed(void **state)
{
    (void)state;
    enum { N = 40, D = 8, RELATIVE = 4 };
    for (size_t tensor = 0; tensor < 3; tensor++) {
        void *options;
        struct attention_case data = any_case(RELATIVE, &options, N, D);
        size_t first[] = {0, RELATIVE_WIDTH * D, (RELATIVE_WIDTH + 1) * D, (RELATIVE_WIDTH + 2) * D};
        fill_huge(data.params + first[tensor], first[tensor + 1] - first[tensor], 5);
        for (size_t i = 0; i < N * N; i++)
            data.value[i] = data.dout[i] = i % N == i / N;
        struct attention_result result = run_finite(&data, N, D);
        check_weights(&result, N, "large terms");
        attention_result_free(&result);
        attention_case_free(&data);
        free(options);
    }
}

/* yoso and yoso-e divide gradients by the lengths of queries and keys. The numbers are within the range that
   they take. */
static void gradients_of_short_rows_are_finite(void **state)
{
    (void)state;
    enum { N = 40, D = 8, KINDS_OF_ROWS = 2 };
    static const float sizes[KINDS_OF_ROWS][4] = /* query, key, value, dout */
        {{1e-11f, 1, 1e15f, 1e14f}, {1, 1e-11f, 1, 1e28f}};
    static const char *const mechanisms[] = {"yoso", "yoso-e"}, *const normalize[] = {"l2", "sum", "none"},
                             *const gradient[] = {"lower", "true"};
    for (size_t at = 0; at < 2 * 3 * 2 * KINDS_OF_ROWS; at++) {
        const float *size = sizes[at % KINDS_OF_ROWS];
        const char *mechanism = mechanisms[at / KINDS_OF_ROWS % 2];
        char settings[60];
        snprintf(settings, sizeof settings, "normalize=%s gradient=%s hash_bits=9",
                 normalize[at / (2 * KINDS_OF_ROWS) % 3], gradient[at / (6 * KINDS_OF_ROWS)]);
        void *options = group_case_options(mechanism, settings);
        struct attention_case data = group_case_new(mechanism, options, N, N, D, N, false);
        for (size_t i = 0; i < N * D; i++) {
            data.query[i] *= size[0];
            data.key[i] *= size[1];
        }
        for (size_t i = 0; i < N * N; i++) {
            data.value[i] *= size[2];
            data.dout[i] *= size[3];
        }
        struct attention_result result = run_finite(&data, N, D);
        attention_result_free(&result);
        attention_case_free(&data);
        free(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_sum_to_one_in_both_directions), cmocka_unit_test(one_key_weighs_one),
        cmocka_unit_test(everything_is_finite_for_all_that_is),  cmocka_unit_test(powers_of_two_go_through),
        cmocka_unit_test(backward_follows_forward_or_its_dout),  cmocka_unit_test(large_terms_are_noticed),
        cmocka_unit_test(gradients_of_short_rows_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
