/* probsparse against its definition in double precision: the sample of each 64 queries from its key, the
   measure and its rank by counting, exact attention for the best and the mean of the values for the others,
   with their gradients. Bugs planted and caught: the measure without the mean, or its mean over all keys; the
   sample of the first queries for all; the best chosen by the sum; causal: unseen keys scored, the u of all
   queries for each; the mean of all values; the gradient of the mean not to the last value, or from computed
   queries too; the gradients of other queries in the place of those of the list.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/check.h"
#include "support/group_case.h"

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

static size_t count_of(size_t factor, size_t n)
{
    double count = (double)factor * ceil(log((double)n));
    return (size_t)fmax(1, fmin((double)n, count));
}

static double measure(const struct oracle_softmax *o, size_t i, size_t factor, bool causal)
{
    size_t tile = i / 64, range = causal ? 64 * (tile + 1) : o->n_k, count = count_of(factor, range),
           seen = 0;
    uint64_t key = random_key(random_key(123, RANDOM_HEAD, 0), RANDOM_GROUPS, tile);
    double most = -INFINITY, sum = 0;
    for (size_t s = 0; s < count; s++) {
        uint32_t words[4];
        random_words(key, s / 4, words);
        size_t j = count == range ? s : (size_t)((uint64_t)words[s % 4] * range >> 32);
        if (causal && j > i)
            continue;
        double score = 0;
        for (size_t c = 0; c < o->d; c++)
            score += o->query[i * o->d + c] * o->key[j * o->d + c];
        most = fmax(most, score);
        sum += score;
        seen++;
    }
    return seen == 0 ? -INFINITY : most - sum / (double)seen;
}

/* kept (n_q): the queries that get exact attention. */
static bool *choose(const struct oracle_softmax *o, size_t factor, bool causal)
{
    double *m = malloc(o->n_q * sizeof *m);
    bool *kept = malloc(o->n_q);
    for (size_t i = 0; i < o->n_q; i++)
        m[i] = measure(o, i, factor, causal);
    for (size_t i = 0; i < o->n_q; i++) {
        size_t among = causal ? i + 1 : o->n_q, better = 0;
        for (size_t j = 0; j < among; j++)
            better += m[j] > m[i] || (m[j] == m[i] && j < i);
        kept[i] = better < count_of(factor, among);
    }
    free(m);
    return kept;
}

static struct oracle_softmax oracle_of(const struct attention_case *data)
{
    size_t n_q = data->queries[0], n_k = data->keys[0], d = data->head_dim, d_v = data->value_dim;
    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    to_double(o.query, data->query, n_q * d);
    to_double(o.key, data->key, n_k * d);
    to_double(o.value, data->value, n_k * d_v);
    to_double(o.dout, data->dout, n_q * d_v);
    if (data->causal) {
        o.visible = malloc(n_q * sizeof *o.visible);
        for (size_t i = 0; i < n_q; i++)
            o.visible[i] = i + 1;
    }
    return o;
}

/* Replaces the results of queries that are not kept by those of the mean. */
static void run_oracle(struct oracle_softmax *o, const bool *kept)
{
    double *dout = malloc(o->n_q * o->d_v * sizeof *dout);
    memcpy(dout, o->dout, o->n_q * o->d_v * sizeof *dout);
    for (size_t i = 0; i < o->n_q * o->d_v; i++)
        o->dout[i] = kept[i / o->d_v] ? dout[i] : 0;
    oracle_softmax_run(o);
    for (size_t i = 0; i < o->n_q; i++) {
        size_t seen = o->visible == NULL ? o->n_k : o->visible[i];
        for (size_t c = 0; c < o->d_v && !kept[i]; c++) {
            double sum = 0, size = 0, share = dout[i * o->d_v + c] / (double)seen;
            for (size_t j = 0; j < seen; j++) {
                sum += o->value[j * o->d_v + c];
                size += fabs(o->value[j * o->d_v + c]);
                o->dvalue[j * o->d_v + c] += share;
                o->dvalue_bound[j * o->d_v + c] += 2 * FLT_EPSILON * fabs(share);
            }
            o->out[i * o->d_v + c] = sum / (double)seen;
            o->out_bound[i * o->d_v + c] = 2 * FLT_EPSILON * size / (double)seen;
        }
    }
    free(dout);
}

static void check_array(const float *got, const double *want, const double *bound, size_t count, double start,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i], bound[i] + 8 * FLT_EPSILON * (fabs(want[i]) + start),
                   what);
}

static void check(struct attention_case *data, struct oracle_softmax *o, const bool *kept, const char *what)
{
    run_oracle(o, kept);
    data->start = 0.25f;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data->kernels = *kernels;
        struct attention_result result = attention_case_run(data);
        check_array(result.out, o->out, o->out_bound, o->n_q * o->d_v, 0, what);
        check_array(result.dquery, o->dquery, o->dquery_bound, o->n_q * o->d, 0.25, what);
        check_array(result.dkey, o->dkey, o->dkey_bound, o->n_k * o->d, 0.25, what);
        check_array(result.dvalue, o->dvalue, o->dvalue_bound, o->n_k * o->d_v, 0.25, what);
        attention_result_free(&result);
    }
}

static void check_shape(size_t n_q, size_t n_k, size_t d, size_t d_v, size_t factor, bool causal)
{
    char settings[64];
    snprintf(settings, sizeof settings, "factor=%zu", factor);
    void *options = group_case_options("probsparse", settings);
    struct attention_case data = group_case_new("probsparse", options, n_q, n_k, d, d_v, causal);
    struct oracle_softmax o = oracle_of(&data);
    bool *kept = choose(&o, factor, causal);
    check(&data, &o, kept, settings);
    free(kept);
    oracle_softmax_free(&o);
    attention_case_free(&data);
    free(options);
}

/* More and fewer queries than keys; samples of few keys, of more than are multiplied at a time, and of
   all. */
static void the_best_queries_are_exact(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, 5, false);
    check_shape(130, 130, 6, 5, 2, false);
    check_shape(200, 90, 8, 3, 3, false);
    check_shape(70, 300, 4, 7, 1, false);
    check_shape(300, 2000, 5, 2, 25, false);
    check_shape(90, 20, 8, 3, 7, false);
}

static void causal_queries_are_ranked_so_far(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, 5, true);
    check_shape(130, 130, 6, 5, 1, true);
    check_shape(333, 333, 8, 3, 2, true);
    check_shape(700, 700, 4, 3, 30, true);
}

static void a_large_factor_is_softmax(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        void *options = group_case_options("probsparse", "factor=1000");
        struct attention_case data = group_case_new("probsparse", options, 150, 150, 8, 5, causal != 0);
        struct attention_result all = attention_case_run(&data);
        data.mechanism = attention_find("softmax");
        struct attention_result exact = attention_case_run(&data);
        if (!causal)
            attention_case_same_bits(&all, &exact, &data, "probsparse with all queries");
        for (size_t i = 0; i < 150 * 5; i++)
            check_near((double)all.out[i], (double)exact.out[i], 1e-6, "out");
        attention_result_free(&all);
        attention_result_free(&exact);
        attention_case_free(&data);
        free(options);
    }
}

/* Queries ten times as long as others have scores that spread ten times as far: all are computed, whatever
   the sample. */
static void queries_that_stand_out_are_found(void **state)
{
    (void)state;
    enum { N = 1000, D = 16, EVERY = 30 };
    void *options = group_case_options("probsparse", "factor=5");
    struct attention_case data = group_case_new("probsparse", options, N, N, D, D, false);
    for (size_t i = 0; i < N; i += EVERY)
        for (size_t c = 0; c < D; c++)
            data.query[i * D + c] *= 10;
    for (uint64_t call = 0; call < 5; call++) {
        data.call_key = call;
        struct oracle_softmax o = oracle_of(&data);
        oracle_softmax_run(&o);
        struct attention_result result = attention_case_run(&data);
        for (size_t i = 0; i < N; i += EVERY)
            check_near_all(result.out + i * D, o.out + i * D, D, 1e-4, "a query that stands out");
        attention_result_free(&result);
        oracle_softmax_free(&o);
    }
    attention_case_free(&data);
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_queries_are_exact),
        cmocka_unit_test(causal_queries_are_ranked_so_far),
        cmocka_unit_test(a_large_factor_is_softmax),
        cmocka_unit_test(queries_that_stand_out_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
