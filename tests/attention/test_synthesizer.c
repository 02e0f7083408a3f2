/* Synthesizer against its formula in double precision, on every instruction set and of every kind: outputs,
   and gradients by differences, those of all tensors too. Bugs planted and caught: no
   slope of relu; columns of W2 shifted; the second factor read after as many rows as the sequence has; the
   gradient of the first without sqrt(w); dot divided by sqrt(w); R with the stride of the sequence, or its
   first rows for all; later keys seen; more keys than rows allowed.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_differences.h"
#include "support/check.h"

/* Filled from synthesizer's options. */
struct synthesizer_options {
    int kind;
    int64_t rank;
};

static const char *const kinds[] = {"dense",      "random",         "factorised",   "dense+dot",
                                    "random+dot", "factorised+dot", "dense+random", "dense+factorised"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the formula --------------------------------------------------------------------------------------- */

static bool is_causal; /* of the case that is checked */

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t c = 0; c < count; c++)
        sum += a[c] * b[c];
    return sum;
}

/* The sum of the terms that the kind names; the tensors of each follow one another in params. */
static double score(const struct oracle_inputs *in, size_t i, size_t j)
{
    const struct synthesizer_options *options = in->options;
    const char *kind = kinds[options->kind];
    const double *next = in->params, *query = in->query + i * in->d;
    size_t d = in->d, rank = (size_t)options->rank;
    double sum = 0;
    if (strstr(kind, "dense") != NULL) {
        const double *layer = next, *place = next + d * d + j * d;
        for (size_t to = 0; to < d; to++) {
            double hidden = 0;
            for (size_t c = 0; c < d; c++)
                hidden += query[c] * layer[c * d + to];
            sum += hidden > 0 ? hidden * place[to] : 0;
        }
        next += d * d + in->max_len * d;
    }
    if (strstr(kind, "random") != NULL) {
        sum += next[i * in->max_len + j];
        next += in->max_len * in->max_len;
    }
    if (strstr(kind, "factorised") != NULL)
        sum += dot(next + i * rank, next + (in->max_len + j) * rank, rank);
    if (strstr(kind, "dot") != NULL)
        sum += dot(query, in->key + j * d, d) / sqrt((double)d);
    return sum;
}

static void synthesizer(const struct oracle_inputs *in, double *out)
{
    memset(out, 0, in->n_q * in->d_v * sizeof *out);
    for (size_t i = 0; i < in->n_q; i++) {
        double sum = 0, *row = out + i * in->d_v;
        for (size_t j = 0; j < (is_causal ? i + 1 : in->n_k); j++) {
            double weight = exp(score(in, i, j));
            sum += weight;
            for (size_t c = 0; c < in->d_v; c++)
                row[c] += weight * in->value[j * in->d_v + c];
        }
        for (size_t c = 0; c < in->d_v; c++)
            row[c] /= sum;
    }
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static struct attention_case case_of(const struct synthesizer_options *options, size_t n_q, size_t n_k,
                                     size_t d, size_t d_v, size_t max_len)
{
    struct attention_case problem =
        attention_case_of_head("synthesizer", options, sizeof *options, n_q, n_k, d, d_v);
    problem.max_len = max_len;
    problem.start = 0.25f;
    attention_case_fill(&problem, n_q + 3 * n_k + (uint64_t)options->kind, false);
    return problem;
}

/* True if a hidden number of the row is so close to 0 that a difference would cross it. */
static bool near_zero(const float *query, const float *layer, size_t d)
{
    for (size_t to = 0; to < d; to++) {
        double hidden = 0;
        for (size_t c = 0; c < d; c++)
            hidden += (double)query[c] * (double)layer[c * d + to];
        if (fabs(hidden) < 0.02)
            return true;
    }
    return false;
}

static void avoid_zeros(struct attention_case *problem)
{
    size_t d = problem->head_dim, kind = (size_t)((const struct synthesizer_options *)problem->options)->kind;
    if (strstr(kinds[kind], "dense") == NULL)
        return;
    for (size_t i = 0; i < problem->queries[0]; i++)
        for (float *row = problem->query + i * d; near_zero(row, problem->params, d);)
            for (size_t c = 0; c < d; c++)
                row[c] = 1.1f * row[c] + 0.01f * (float)c;
}

static void check_shape(size_t kind, bool causal, size_t n_q, size_t n_k, size_t d, size_t d_v,
                        size_t max_len, size_t samples)
{
    struct synthesizer_options options = {(int)kind, 5};
    struct attention_case problem = case_of(&options, n_q, n_k, d, d_v, max_len);
    char what[120];
    snprintf(what, sizeof what, "%s%s, %zu queries, %zu keys of %zu, d %zu and %zu", kinds[kind],
             causal ? ", causal" : "", n_q, n_k, max_len, d, d_v);
    problem.causal = is_causal = causal;
    avoid_zeros(&problem);
    oracle_differences_check(&problem, synthesizer, samples, what);
    attention_case_free(&problem);
}

/* One token; max_len met and not; cross attention; several blocks of queries, tiles and groups of keys. */
static void every_kind_is_its_formula(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++)
        for (int causal = 0; causal < 2; causal++) {
            check_shape(kind, causal != 0, 1, 1, 1, 1, 1, 10);
            check_shape(kind, causal != 0, 12, 12, 4, 3, 15, 40);
            check_shape(kind, causal != 0, 200, 200, 3, 2, 200, 4);
        }
    for (size_t kind = 0; kind < KINDS; kind++) {
        check_shape(kind, false, 9, 14, 3, 4, 14, 40);
        check_shape(kind, false, 130, 600, 4, 2, 601, 3);
    }
}

/* With a term of zeros, dot is softmax. */
static void zeros_and_dot_are_softmax(void **state)
{
    (void)state;
    enum { N = 70, D = 6, D_V = 5 };
    for (int kind = 3; kind <= 5; kind++) {
        struct synthesizer_options options = {kind, 4};
        struct attention_case problem = case_of(&options, N, N, D, D_V, N);
        memset(problem.params, 0, attention_case_params(&problem) * sizeof *problem.params);
        attention_case_near_softmax(&problem, 1e-5);
        attention_case_free(&problem);
    }
}

/* Of every kind, on one thread and on five: test_every_mechanism knows only the first. */
static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct synthesizer_options options = {kind, 4};
        struct attention_case problem = case_of(&options, 1100, 1100, 5, 4, 1100);
        problem.kernels = kernels_named(NULL, &(const char *){0});
        struct attention_result one = attention_case_run(&problem);
        problem.threads = 5;
        struct attention_result many = attention_case_run(&problem);
        attention_case_same_bits(&one, &many, &problem, kinds[kind]);
        attention_result_free(&one);
        attention_result_free(&many);
        attention_case_free(&problem);
    }
}

static void refusals_have_the_numbers(void **state)
{
    (void)state;
    static const struct {
        size_t queries, keys, max_len;
        const char *part;
    } cases[] = {
        {20, 30, 29, "(sequence 0: 20 queries, 30 keys, head_dim 4, max_len 29)"},
        {30, 20, 29, "its tensors have a place per position up to max_len; there are more queries"},
        {30, 30, 0, "max_len, which is not known"},
        {30, 30, 30, NULL},
    };
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct synthesizer_options options = {0, 4};
        struct attention_case problem =
            case_of(&options, cases[i].queries, cases[i].keys, 4, 4, cases[i].max_len);
        size_t offsets[2 * (CASE_SEQUENCES + 1)];
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
        cmocka_unit_test(every_kind_is_its_formula),
        cmocka_unit_test(zeros_and_dot_are_softmax),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(refusals_have_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
