/* Sinkhorn attention against its definition in double precision, on every instruction set, and its gradients
   against finite differences of that. Bugs planted and caught: R without gradient from the
   values; block sums without gradient; sorted keys without gradient to the keys; either relu or the
   temperature not passed back; R transposed; the rest of a short last block seen, or not zeroed; sums
   limited to 2^30.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/pair_case.h"

/* Filled from sinkhorn's options. */
struct sinkhorn_options {
    int64_t block_size;
};

enum { ROUNDS = 7, MOST = 64 }; /* MOST: blocks */
static const double temperature = 0.75;

/* Inputs in double: query, key, value, then the tensors. */
struct inputs {
    size_t n_q, n_k, d, d_v, b, width; /* width: blocks of the longest length */
    double *all, *query, *key, *value, *w1, *c1, *w2, *c2;
    size_t count;
};

static struct inputs inputs_of(const struct attention_case *problem, size_t b)
{
    struct inputs in = {.n_q = problem->queries[0],
                        .n_k = problem->keys[0],
                        .d = problem->head_dim,
                        .d_v = problem->value_dim,
                        .b = b,
                        .width = (problem->max_len + b - 1) / b};
    size_t params = attention_case_params(problem);
    assert_int_equal(params, (in.d + 1) * (in.d + in.width));
    const float *from[] = {problem->query, problem->key, problem->value, problem->params};
    size_t counts[] = {in.n_q * in.d, in.n_k * in.d, in.n_k * in.d_v, params};
    in.all = malloc((counts[0] + counts[1] + counts[2] + counts[3]) * sizeof *in.all);
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < counts[a]; i++)
            in.all[in.count++] = (double)from[a][i];
    in.query = in.all;
    in.key = in.query + counts[0];
    in.value = in.key + counts[1];
    in.w1 = in.value + counts[2];
    in.c1 = in.w1 + in.d * in.d;
    in.w2 = in.c1 + in.d;
    in.c2 = in.w2 + in.d * in.width;
    return in;
}

/* R (N, N) by its definition. */
static void sort_of(const struct inputs *in, double r[MOST][MOST])
{
    size_t n = (in->n_k + in->b - 1) / in->b;
    double sums[256], hidden[256];
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < in->d; c++) {
            sums[c] = 0;
            for (size_t j = i * in->b; j < in->n_k && j < (i + 1) * in->b; j++)
                sums[c] += in->key[j * in->d + c];
        }
        for (size_t h = 0; h < in->d; h++) {
            hidden[h] = in->c1[h];
            for (size_t c = 0; c < in->d; c++)
                hidden[h] += sums[c] * in->w1[c * in->d + h];
            hidden[h] = fmax(hidden[h], 0);
        }
        for (size_t j = 0; j < n; j++) {
            double score = in->c2[j];
            for (size_t h = 0; h < in->d; h++)
                score += hidden[h] * in->w2[h * in->width + j];
            r[i][j] = exp(fmax(score, 0) / temperature);
        }
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int side = 0; side < 2; side++)
            for (size_t a = 0; a < n; a++) {
                double sum = 0;
                for (size_t k = 0; k < n; k++)
                    sum += side == 0 ? r[a][k] : r[k][a];
                for (size_t k = 0; k < n; k++)
                    *(side == 0 ? &r[a][k] : &r[k][a]) /= sum;
            }
}

/* Writes out (n_q, d_v). */
static void attend(const struct inputs *in, double *out)
{
    static double r[MOST][MOST];
    size_t n = (in->n_k + in->b - 1) / in->b, d = in->d, d_v = in->d_v;
    size_t rows = in->n_k < in->b ? in->n_k : in->b;
    double *key = calloc(2 * rows * d, sizeof *key), *value = calloc(2 * rows * d_v, sizeof *value),
           *weight = calloc(2 * rows, sizeof *weight);
    sort_of(in, r);
    memset(out, 0, in->n_q * d_v * sizeof *out);
    for (size_t i = 0; i < in->n_q; i++) {
        size_t own = i / in->b, met = rows;
        if (own >= n)
            continue;
        memset(key, 0, 2 * rows * d * sizeof *key);
        memset(value, 0, 2 * rows * d_v * sizeof *value);
        for (size_t j = 0; j < in->n_k; j++) {
            size_t place = j % in->b;
            for (size_t c = 0; c < d; c++)
                key[place * d + c] += r[own][j / in->b] * in->key[j * d + c];
            for (size_t c = 0; c < d_v; c++)
                value[place * d_v + c] += r[own][j / in->b] * in->value[j * d_v + c];
            if (j / in->b != own)
                continue;
            memcpy(key + met * d, in->key + j * d, d * sizeof *key);
            memcpy(value + met++ * d_v, in->value + j * d_v, d_v * sizeof *value);
        }
        double total = 0;
        for (size_t j = 0; j < met; j++) {
            double score = 0;
            for (size_t c = 0; c < d; c++)
                score += in->query[i * d + c] * key[j * d + c];
            total += weight[j] = exp(score / sqrt((double)d));
        }
        for (size_t j = 0; j < met; j++)
            for (size_t c = 0; c < d_v; c++)
                out[i * d_v + c] += weight[j] / total * value[j * d_v + c];
    }
    free(key);
    free(value);
    free(weight);
}

static double loss(const struct inputs *in, const float *dout, double *out)
{
    double sum = 0;
    attend(in, out);
    for (size_t i = 0; i < in->n_q * in->d_v; i++)
        sum += (double)dout[i] * out[i];
    return sum;
}

static struct attention_case case_of(const struct sinkhorn_options *options, size_t n_q, size_t n_k, size_t d,
                                     size_t d_v, size_t max_len, uint64_t seed)
{
    struct attention_case problem =
        attention_case_of_head("sinkhorn", options, sizeof *options, n_q, n_k, d, d_v);
    problem.max_len = max_len;
    attention_case_fill(&problem, seed, false);
    for (size_t i = 0; i < attention_case_params(&problem); i++)
        problem.params[i] *= 0.5f; /* scores of a few units */
    return problem;
}

/* b, queries, keys, longest, d, d_v: one block, a short last block, all blocks whole, a longer W_2, and more
   queries or keys than the other side. */
static const size_t shapes[][6] = {
    {4, 1, 1, 1, 1, 1},    {4, 3, 3, 4, 3, 2},       {4, 4, 4, 4, 3, 2},    {4, 13, 13, 13, 3, 2},
    {4, 16, 16, 16, 3, 2}, {4, 14, 14, 40, 3, 2},    {3, 10, 14, 20, 3, 2}, {3, 20, 8, 20, 3, 2},
    {1, 9, 9, 9, 2, 3},    {100, 20, 20, 300, 3, 2},
};

static void check_gradients(const size_t *shape, uint64_t seed, const struct kernels *kernels)
{
    struct sinkhorn_options options = {(int64_t)shape[0]};
    struct attention_case problem = case_of(&options, shape[1], shape[2], shape[4], shape[5], shape[3], seed);
    problem.kernels = kernels;
    problem.start = 0.25f;
    struct inputs in = inputs_of(&problem, shape[0]);
    double *out = malloc(in.n_q * in.d_v * sizeof *out);
    struct attention_result result = attention_case_run(&problem);
    attend(&in, out);
    for (size_t i = 0; i < in.n_q * in.d_v; i++)
        check_near((double)result.out[i], out[i], 4e-6 * (1 + fabs(out[i])), "out");
    const float *got[] = {result.dquery, result.dkey, result.dvalue, result.dparams};
    size_t counts[] = {in.n_q * in.d, in.n_k * in.d, in.n_k * in.d_v, attention_case_params(&problem)},
           at = 0;
    static const char *const names[] = {"dquery", "dkey", "dvalue", "dparams"};
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < counts[a]; i++, at++) {
            double before = in.all[at], step = 1e-6, want;
            in.all[at] = before + step;
            want = loss(&in, problem.dout, out);
            in.all[at] = before - step;
            want = (want - loss(&in, problem.dout, out)) / (2 * step);
            in.all[at] = before;
            check_near((double)got[a][i], 0.25 + want, 3e-5 * (1 + fabs(want)), names[a]);
        }
    free(out);
    free(in.all);
    attention_result_free(&result);
    attention_case_free(&problem);
}

static void every_shape_is_the_definition(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_gradients(shapes[i], i, *kernels);
}

/* More blocks and columns than a unit of work has; gradients along random directions. */
static void long_sequences_are_the_definition(void **state)
{
    (void)state;
    static const size_t large[][6] = {
        {5, 318, 318, 320, 4, 3}, {60, 700, 700, 720, 6, 5}, {130, 700, 640, 780, 3, 2}};
    for (size_t k = 0; k < sizeof large / sizeof *large; k++)
        for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
            const size_t *shape = large[k];
            struct sinkhorn_options options = {(int64_t)shape[0]};
            struct attention_case problem =
                case_of(&options, shape[1], shape[2], shape[4], shape[5], shape[3], k);
            for (size_t i = 0; i < shape[4] * shape[4]; i++)
                problem.params[i] *= 0.1f; /* sums of b keys */
            problem.kernels = *kernels;
            struct inputs in = inputs_of(&problem, shape[0]);
            double *out = malloc(in.n_q * in.d_v * sizeof *out);
            struct attention_result result = attention_case_run(&problem);
            attend(&in, out);
            for (size_t i = 0; i < in.n_q * in.d_v; i++)
                check_near((double)result.out[i], out[i], 1e-5 * (1 + fabs(out[i])), "out");
            const float *got[] = {result.dquery, result.dkey, result.dvalue, result.dparams};
            size_t counts[] = {in.n_q * in.d, in.n_k * in.d, in.n_k * in.d_v,
                               attention_case_params(&problem)};
            double *start = malloc(in.count * sizeof *start);
            memcpy(start, in.all, in.count * sizeof *start);
            for (size_t a = 0, at = 0; a < 4; at += counts[a++]) {
                double inner = 0, terms = 0, step = 1e-7, up;
                for (size_t i = 0; i < counts[a]; i++) {
                    double way = (i * 7919 + 13) % 5 < 2 ? 1 : -1;
                    inner += way * (double)got[a][i];
                    terms += fabs((double)got[a][i]);
                    in.all[at + i] = start[at + i] + way * step;
                }
                up = loss(&in, problem.dout, out);
                for (size_t i = 0; i < counts[a]; i++)
                    in.all[at + i] = 2 * start[at + i] - in.all[at + i];
                double want = (up - loss(&in, problem.dout, out)) / (2 * step);
                memcpy(in.all, start, in.count * sizeof *start);
                check_near(inner, want, 2e-5 * (terms + fabs(want)), "derivative");
            }
            free(start);
            free(out);
            free(in.all);
            attention_result_free(&result);
            attention_case_free(&problem);
        }
}

/* A single block: the sorted block is the block itself, and every key is met twice. */
static void one_block_is_plain_attention(void **state)
{
    (void)state;
    struct sinkhorn_options options = {300};
    struct attention_case problem = case_of(&options, 300, 300, 16, 8, 900, 13);
    pair_case_equals_softmax(&problem);
    attention_case_free(&problem);
}

/* W_1 = 0 and c_1 = 1 make the scores of all blocks alike: R is uniform, and a sorted block is the mean of
   all blocks. Then c_2 moves no weight either, because columns are balanced. */
static void equal_scores_give_the_mean_block(void **state)
{
    (void)state;
    enum { B = 4, N = 20, D = 2 };
    struct sinkhorn_options options = {B};
    struct attention_case problem = case_of(&options, N, N, D, D, N, 3);
    for (size_t i = 0; i < D * D + D; i++)
        problem.params[i] = i >= D * D;
    memset(problem.query, 0, N * D * sizeof *problem.query); /* all weights are equal */
    struct attention_result result = attention_case_run(&problem);
    for (size_t c = 0; c < D; c++) {
        double all = 0;
        for (size_t j = 0; j < N; j++)
            all += (double)problem.value[j * D + c] / N;
        for (size_t i = 0; i < N; i++) {
            double own = 0;
            for (size_t j = i / B * B; j < i / B * B + B; j++)
                own += (double)problem.value[j * D + c] / B;
            check_near((double)result.out[i * D + c], (all + own) / 2, 1e-6, "out");
        }
    }
    attention_result_free(&result);
    attention_case_free(&problem);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const size_t blocks[] = {20, 64, 300};
    for (size_t k = 0; k < 3; k++) {
        struct sinkhorn_options options = {(int64_t)blocks[k]};
        struct attention_case problem = case_of(&options, 4500, 4503, 19, 41, 4800, 17);
        pair_case_check_threads(&problem);
        attention_case_free(&problem);
    }
}

/* Keys 2^33 times as large, whose sums pass 2^30, with a first layer and queries as much smaller give the
   same outputs; the gradients are as many times larger or smaller. */
static void scale_moves_from_keys_to_queries_and_the_net(void **state)
{
    (void)state;
    enum { N = 33, D = 6, SHIFT = 33 };
    struct sinkhorn_options options = {5};
    struct attention_case problem = case_of(&options, N, N, D, D, N, 5);
    struct attention_result plain = attention_case_run(&problem);
    for (size_t i = 0; i < N * D; i++) {
        problem.key[i] = ldexpf(problem.key[i], SHIFT);
        problem.query[i] = ldexpf(problem.query[i], -SHIFT);
    }
    for (size_t i = 0; i < D * D; i++)
        problem.params[i] = ldexpf(problem.params[i], -SHIFT);
    struct attention_result moved = attention_case_run(&problem);
    for (size_t i = 0; i < N * D; i++) {
        check_near((double)moved.out[i], (double)plain.out[i], 1e-4, "out");
        check_near(ldexp((double)moved.dquery[i], -SHIFT), (double)plain.dquery[i], 1e-3, "dquery");
        check_near(ldexp((double)moved.dkey[i], SHIFT), (double)plain.dkey[i], 1e-3, "dkey");
        check_near((double)moved.dvalue[i], (double)plain.dvalue[i], 1e-3, "dvalue");
    }
    attention_result_free(&plain);
    attention_result_free(&moved);
    attention_case_free(&problem);
}

static void refusals_say_why(void **state)
{
    (void)state;
    const struct mechanism *sinkhorn = attention_find("sinkhorn");
    struct sinkhorn_options options = {64};
    struct problem_shape shape = {
        .num_queries = 100, .num_keys = 100, .head_dim = 4, .value_dim = 4, .max_len = 100, .workers = 1};
    assert_null(mechanism_refuses(sinkhorn, &options, &shape));
    shape.num_keys = 101;
    assert_string_equal(mechanism_refuses(sinkhorn, &options, &shape),
                        "its tensors have a place per position up to max_len; the sequence is longer");
    shape.max_len = 0;
    assert_string_equal(mechanism_refuses(sinkhorn, &options, &shape),
                        "its tensors have a place per position up to max_len, which is not known");
    shape.causal = true;
    assert_string_equal(mechanism_refuses(sinkhorn, &options, &shape),
                        "it has no causal form: balanced columns depend on later blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_the_definition),
        cmocka_unit_test(long_sequences_are_the_definition),
        cmocka_unit_test(one_block_is_plain_attention),
        cmocka_unit_test(equal_scores_give_the_mean_block),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(scale_moves_from_keys_to_queries_and_the_net),
        cmocka_unit_test(refusals_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
