/* Softmax attention of large queries and keys, on every instruction set: the weights of forward and those of
   backward are the same numbers, each at most 1, and those of a query sum to 1. Values and dout are the
   identity, so out holds the weights of forward and dvalue those of backward. Head sizes whose square root is
   a power of two and others. Bugs planted and caught: the maximum of products that were scaled, the
   exponential of such that were not; maximum and logarithm of the sum kept as one number; the maximum of a
   query of buckets begun above its scores. SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/attention_case.h"
#include "support/bucket_case.h"
#include "support/check.h"

/* Mechanisms that are softmax over some keys, with settings that leave rows as they are. */
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
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* n queries and keys of N(0, size^2), the identity as values and as dout. */
static struct attention_case weights_case(size_t kind, const void *options, size_t n, size_t d, float size)
{
    struct attention_case data =
        bucket_case_new(kinds[kind].mechanism, options, n, n, d, n, kinds[kind].causal);
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
            assert_true(p >= 0 && p <= 1 + 2 * FLT_EPSILON); /* a weight, or that of a key met twice */
            assert_true(again >= 0 && again <= 1 + 2 * FLT_EPSILON);
            check_near(again, p, room * p + 4 * FLT_MIN, what);
            forward += p;
            backward += again;
        }
        if (forward == 0 && backward == 0) /* in no bucket */
            continue;
        check_near(forward, 1, room, what);
        check_near(backward, 1, room, what);
    }
}

static void check_kind(size_t kind, size_t n, size_t d, float size, const struct kernels *kernels)
{
    void *options = bucket_case_options(kinds[kind].mechanism, kinds[kind].settings);
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
    static const float sizes[] = {1, 10, 100, 1e4f, 1e9f, 1e15f};
    static const size_t dims[] = {7, 32, 64};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (size_t d = 0; d < 3; d++)
                    check_kind(kind, d == 1 ? 150 : 40, dims[d], sizes[s], *kernels);
}

/* Of one query and one key, out is the value and dvalue is dout, whatever the score. lha and its controls
   meet the key in every bucket, and add up what those give. */
static void one_key_weighs_one(void **state)
{
    (void)state;
    enum { D = 128 };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (float size = 1; size < 1e17f; size *= 31.7f) {
                void *options = bucket_case_options(kinds[kind].mechanism, kinds[kind].settings);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_sum_to_one_in_both_directions),
        cmocka_unit_test(one_key_weighs_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
