/* Linformer against its formula in double precision, on every instruction set: outputs, and gradients by
   differences, that of the projection too; the projection as identity against softmax. Bugs planted and
   caught: dE without the part of V; rows of E taken one column apart, or as wide as the sequence; the columns
   of the first keys for all in backward; a key too many allowed; the gradient of E V not begun at zero.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_differences.h"
#include "support/check.h"

/* Filled from linformer's options. */
struct linformer_options {
    int64_t rank;
};

static void linformer(const struct oracle_inputs *in, double *out)
{
    size_t rank = (size_t)((const struct linformer_options *)in->options)->rank;
    double *key = calloc(rank * in->d, sizeof *key), *value = calloc(rank * in->d_v, sizeof *value);
    for (size_t r = 0; r < rank; r++)
        for (size_t j = 0; j < in->n_k; j++) {
            double e = in->params[r * in->max_len + j];
            for (size_t c = 0; c < in->d; c++)
                key[r * in->d + c] += e * in->key[j * in->d + c];
            for (size_t c = 0; c < in->d_v; c++)
                value[r * in->d_v + c] += e * in->value[j * in->d_v + c];
        }
    for (size_t i = 0; i < in->n_q; i++) {
        double sum = 0;
        memset(out + i * in->d_v, 0, in->d_v * sizeof *out);
        for (size_t r = 0; r < rank; r++) {
            double dot = 0, weight;
            for (size_t c = 0; c < in->d; c++)
                dot += in->query[i * in->d + c] * key[r * in->d + c];
            sum += weight = exp(dot / sqrt((double)in->d));
            for (size_t c = 0; c < in->d_v; c++)
                out[i * in->d_v + c] += weight * value[r * in->d_v + c];
        }
        for (size_t c = 0; c < in->d_v; c++)
            out[i * in->d_v + c] /= sum;
    }
    free(key);
    free(value);
}

/* The projection is normal, of a size that makes a sum of n_k rows about as long as a row. */
static struct attention_case case_of(const struct linformer_options *options, size_t n_q, size_t n_k,
                                     size_t d, size_t d_v, size_t max_len)
{
    struct attention_case problem =
        attention_case_of_head("linformer", options, sizeof *options, n_q, n_k, d, d_v);
    problem.max_len = max_len;
    problem.start = 0.25f;
    attention_case_fill(&problem, n_q + 3 * n_k, false);
    for (size_t i = 0; i < attention_case_params(&problem); i++)
        problem.params[i] /= sqrtf((float)n_k);
    return problem;
}

static void check_shape(size_t rank, size_t n_q, size_t n_k, size_t d, size_t d_v, size_t max_len,
                        size_t samples)
{
    struct linformer_options options = {(int64_t)rank};
    struct attention_case problem = case_of(&options, n_q, n_k, d, d_v, max_len);
    char what[100];
    snprintf(what, sizeof what, "rank %zu, %zu queries, %zu keys of %zu, d %zu and %zu", rank, n_q, n_k,
             max_len, d, d_v);
    oracle_differences_check(&problem, linformer, samples, what);
    attention_case_free(&problem);
}

/* Ranks below, at and above the rows that are multiplied at a time; as many keys as the projection has
   columns, and fewer; more rows than keys; several chunks of queries and of keys. */
static void linformer_is_its_formula(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, 1, 1, 10);
    check_shape(3, 20, 20, 4, 3, 20, 1000);
    check_shape(5, 30, 20, 4, 3, 25, 1000);
    check_shape(40, 9, 12, 3, 5, 40, 1000);
    check_shape(64, 50, 70, 5, 4, 71, 60);
    check_shape(130, 100, 90, 6, 2, 90, 60);
    check_shape(4, 2000, 1100, 3, 2, 1100, 60);
}

static void the_identity_is_softmax(void **state)
{
    (void)state;
    enum { N = 50, D = 6, D_V = 5 };
    struct linformer_options options = {N};
    struct attention_case problem = case_of(&options, N, N, D, D_V, N);
    for (size_t i = 0; i < (size_t)N * N; i++)
        problem.params[i] = i % (N + 1) == 0;
    attention_case_near_softmax(&problem, 1e-5);
    attention_case_free(&problem);
}

/* Keys that are masked, before, between and behind the others, take no column. */
static void columns_belong_to_the_keys_that_take_part(void **state)
{
    (void)state;
    enum { N = 40, KEPT = 25, D = 4 };
    struct linformer_options options = {7};
    struct attention_case whole = case_of(&options, N, N, D, D, N), kept = whole;
    attention_case_free(&whole);
    attention_case_fill(&whole, 9, true);
    kept.keys[0] = KEPT;
    attention_case_fill(&kept, 9, false);
    for (size_t j = 0, k = 0; j < N; j++) {
        whole.key_mask[j] = k < KEPT && j >= 3 && j % 4 != 1;
        if (whole.key_mask[j]) {
            attention_case_take_rows(kept.key, k, whole.key, j, 1, D);
            attention_case_take_rows(kept.value, k++, whole.value, j, 1, D);
        } else {
            whole.key[j * D] = NAN;
        }
        assert_true(j + 1 < N || k == KEPT);
    }
    struct attention_result masked = attention_case_run(&whole), absent = attention_case_run(&kept);
    check_same_bits(masked.out, absent.out, N * D * sizeof(float), "out");
    check_same_bits(masked.dparams, absent.dparams, masked.param_count * sizeof(float), "dparams");
    attention_result_free(&masked);
    attention_result_free(&absent);
    attention_case_free(&whole);
    attention_case_free(&kept);
}

static void refusals_have_the_numbers(void **state)
{
    (void)state;
    static const struct {
        size_t keys, max_len;
        bool causal;
        const char *part;
    } cases[] = {
        {30, 29, false, "its tensors have a place per position up to max_len; the sequence is longer"},
        {30, 29, false, "(sequence 0: 30 queries, 30 keys, head_dim 4, max_len 29)"},
        {30, 0, false, "max_len, which is not known"},
        {30, 30, true, "there is no causal form"},
        {30, 30, false, NULL},
    };
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct linformer_options options = {3};
        struct attention_case problem =
            case_of(&options, cases[i].keys, cases[i].keys, 4, 4, cases[i].max_len);
        size_t offsets[2 * (CASE_SEQUENCES + 1)];
        problem.causal = cases[i].causal;
        struct case_call made = attention_case_call(&problem, pool, offsets);
        check_status(&host, case_plan(&host, &made), cases[i].part ? HASHATTN_REFUSED : HASHATTN_OK,
                     cases[i].part);
        attention_case_free(&problem);
    }
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linformer_is_its_formula),
        cmocka_unit_test(the_identity_is_softmax),
        cmocka_unit_test(columns_belong_to_the_keys_that_take_part),
        cmocka_unit_test(refusals_have_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
