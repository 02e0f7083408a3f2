/* Runs oracle and mechanism for each instruction set, and compares them within its bounds.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/pair_case.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "support/check.h"

struct attention_case pair_case_new(const char *mechanism, const void *options, size_t queries, size_t keys,
                                    size_t head_dim, size_t value_dim, bool causal, enum precision precision,
                                    uint64_t seed)
{
    struct attention_case problem = {.mechanism = attention_find(mechanism),
                                     .options = options,
                                     .precision = precision,
                                     .causal = causal,
                                     .num_sequences = 1,
                                     .num_heads = 1,
                                     .head_dim = head_dim,
                                     .value_dim = value_dim,
                                     .queries = {queries},
                                     .keys = {keys}};
    assert_non_null(problem.mechanism);
    attention_case_fill(&problem, seed, false);
    const struct kernels *kernels = kernels_all()[0];
    float *arrays[] = {problem.query, problem.key, problem.value, problem.dout};
    size_t counts[] = {queries * head_dim, keys * head_dim, keys * value_dim, queries * value_dim};
    for (size_t a = 0; a < 4 && precision == PRECISION_BF16; a++) {
        bf16 *half = malloc(counts[a] * sizeof *half);
        kernels->bf16.round(half, counts[a], arrays[a], counts[a], 1, counts[a]);
        kernels->bf16.widen(arrays[a], counts[a], half, counts[a], 1, counts[a]);
        free(half);
    }
    return problem;
}

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

struct oracle_softmax pair_case_oracle(const struct attention_case *problem, pair_times *times,
                                       const void *argument)
{
    size_t n_q = problem->queries[0], n_k = problem->keys[0], d = problem->head_dim, d_v = problem->value_dim;
    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    o.rounding = problem->precision == PRECISION_BF16 ? ldexp(1, -8) : 0; /* 8 bits, to nearest */
    o.times = malloc(n_q * n_k * sizeof *o.times);
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_k; j++)
            o.times[i * n_k + j] = (double)times(argument, i, j);
    to_double(o.query, problem->query, n_q * d);
    to_double(o.key, problem->key, n_k * d);
    to_double(o.value, problem->value, n_k * d_v);
    to_double(o.dout, problem->dout, n_q * d_v);
    oracle_softmax_run(&o);
    return o;
}

/* room: how many times the bound; plus two roundings of start + want. */
static void check_array(const float *got, const double *want, const double *bound, size_t count, double start,
                        double room, const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i],
                   room * bound[i] + 2 * FLT_EPSILON * (fabs(start) + fabs(want[i])), what);
}

static void check_result(const struct attention_result *result, const struct oracle_softmax *o, double start)
{
    check_array(result->out, o->out, o->out_bound, o->n_q * o->d_v, 0, 1, "out");
    check_array(result->dquery, o->dquery, o->dquery_bound, o->n_q * o->d, start, 1, "dquery");
    check_array(result->dkey, o->dkey, o->dkey_bound, o->n_k * o->d, start, 1, "dkey");
    check_array(result->dvalue, o->dvalue, o->dvalue_bound, o->n_k * o->d_v, start, 1, "dvalue");
}

void pair_case_check(struct attention_case *problem, pair_times *times, const void *argument)
{
    struct oracle_softmax o = pair_case_oracle(problem, times, argument);
    problem->start = 0.25f;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        problem->kernels = *kernels;
        struct attention_result result = attention_case_run(problem);
        check_result(&result, &o, 0.25);
        attention_result_free(&result);
    }
    oracle_softmax_free(&o);
}

static size_t once(const void *causal, size_t query, size_t key)
{
    return !*(const bool *)causal || key <= query;
}

void pair_case_equals_softmax(struct attention_case *problem)
{
    struct oracle_softmax o = pair_case_oracle(problem, once, &problem->causal);
    struct attention_result sparse = attention_case_run(problem);
    struct attention_case whole = *problem;
    whole.mechanism = attention_find("softmax");
    struct attention_result dense = attention_case_run(&whole);
    const struct {
        const float *a, *b;
        const double *bound;
        size_t count;
        const char *what;
    } arrays[] = {
        {sparse.out, dense.out, o.out_bound, o.n_q * o.d_v, "out"},
        {sparse.dquery, dense.dquery, o.dquery_bound, o.n_q * o.d, "dquery"},
        {sparse.dkey, dense.dkey, o.dkey_bound, o.n_k * o.d, "dkey"},
        {sparse.dvalue, dense.dvalue, o.dvalue_bound, o.n_k * o.d_v, "dvalue"},
    };
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        for (size_t i = 0; i < arrays[a].count; i++)
            check_near((double)arrays[a].a[i], (double)arrays[a].b[i], 2 * arrays[a].bound[i],
                       arrays[a].what);
    attention_result_free(&sparse);
    attention_result_free(&dense);
    oracle_softmax_free(&o);
}

void pair_case_check_threads(struct attention_case *problem)
{
    problem->kernels = kernels_named(NULL, &(const char *){0});
    struct attention_result one = attention_case_run(problem);
    for (problem->threads = 2; problem->threads < 12; problem->threads += 3) {
        struct attention_result many = attention_case_run(problem);
        attention_case_same_bits(&one, &many, problem, problem->mechanism->name);
        attention_result_free(&many);
    }
    attention_result_free(&one);
}
