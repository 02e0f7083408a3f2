/* Nystromformer against its formula in double precision, on every instruction set: outputs, and gradients by
   differences. Bugs planted and caught: 14 for 15 in a step; the gradient of the start's divisor left out; dU
   with the wrong sign; A, Z or dS not transposed; segments of equal length in backward, or the remainder in
   the last; landmarks used for as many tokens; scores of landmarks never in double.
   Covers: pseudo_inverse.c segments.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_differences.h"
#include "support/check.h"

/* Filled from nystrom's options. */
struct nystrom_options {
    int64_t num_landmarks;
};

/* ---- the formula --------------------------------------------------------------------------------------- */

/* to (m, d): segment s has the rows from floor(s n / m) to before floor((s + 1) n / m). */
static void means(const double *rows, size_t n, size_t d, size_t m, double *to)
{
    for (size_t s = 0; s < m; s++) {
        double count = 0;
        memset(to + s * d, 0, d * sizeof *to);
        for (size_t i = 0; i < n; i++) {
            if (i < s * n / m || i >= (s + 1) * n / m)
                continue;
            count++;
            for (size_t c = 0; c < d; c++)
                to[s * d + c] += rows[i * d + c];
        }
        for (size_t c = 0; c < d; c++)
            to[s * d + c] /= count;
    }
}

/* weights (n_a, n_b) = softmax(a b^T / sqrt(d)). */
static double *softmax(const double *a, size_t n_a, const double *b, size_t n_b, size_t d)
{
    double *w = malloc(n_a * n_b * sizeof *w);
    for (size_t i = 0; i < n_a; i++) {
        double sum = 0;
        for (size_t j = 0; j < n_b; j++) {
            double dot = 0;
            for (size_t c = 0; c < d; c++)
                dot += a[i * d + c] * b[j * d + c];
            sum += w[i * n_b + j] = exp(dot / sqrt((double)d));
        }
        for (size_t j = 0; j < n_b; j++)
            w[i * n_b + j] /= sum;
    }
    return w;
}

/* A new array (rows, cols) = a (rows, depth) b (depth, cols). */
static double *times(const double *a, const double *b, size_t rows, size_t cols, size_t depth)
{
    double *c = calloc(rows * cols, sizeof *c);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < depth; k++)
            for (size_t j = 0; j < cols; j++)
                c[i * cols + j] += a[i * depth + k] * b[k * cols + j];
    return c;
}

/* x = diagonal I - x. */
static void subtract_from(double diagonal, double *x, size_t m)
{
    for (size_t i = 0; i < m * m; i++)
        x[i] = (i % (m + 1) == 0 ? diagonal : 0) - x[i];
}

static double *inverse_of(const double *a, size_t m)
{
    double *z = malloc(m * m * sizeof *z), largest = 0;
    for (size_t j = 0; j < m; j++) {
        double sum = 0;
        for (size_t i = 0; i < m; i++)
            sum += a[i * m + j];
        largest = fmax(largest, sum);
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            z[i * m + j] = a[j * m + i] / largest;
    for (int step = 0; step < 6; step++) {
        double *az = times(a, z, m, m, m), *part = malloc(m * m * sizeof *part), *next;
        memcpy(part, az, m * m * sizeof *part);
        for (int power = 0; power < 3; power++) {
            subtract_from(power == 0 ? 7 : power == 1 ? 15 : 13, part, m);
            next = power < 2 ? times(az, part, m, m, m) : times(z, part, m, m, m);
            free(part);
            part = next;
        }
        for (size_t i = 0; i < m * m; i++)
            z[i] = part[i] / 4;
        free(part);
        free(az);
    }
    return z;
}

static void nystrom(const struct oracle_inputs *in, double *out)
{
    size_t m = (size_t)((const struct nystrom_options *)in->options)->num_landmarks;
    if (m >= in->n_q || m >= in->n_k) {
        double *weights = softmax(in->query, in->n_q, in->key, in->n_k, in->d);
        double *sums = times(weights, in->value, in->n_q, in->d_v, in->n_k);
        memcpy(out, sums, in->n_q * in->d_v * sizeof *out);
        free(weights);
        free(sums);
        return;
    }
    double *query = malloc(m * in->d * sizeof *query), *key = malloc(m * in->d * sizeof *key);
    means(in->query, in->n_q, in->d, m, query);
    means(in->key, in->n_k, in->d, m, key);
    double *f = softmax(in->query, in->n_q, key, m, in->d), *a = softmax(query, m, key, m, in->d),
           *g = softmax(query, m, in->key, in->n_k, in->d), *z = inverse_of(a, m),
           *met = times(g, in->value, m, in->d_v, in->n_k), *mixed = times(z, met, m, in->d_v, m),
           *sums = times(f, mixed, in->n_q, in->d_v, m);
    memcpy(out, sums, in->n_q * in->d_v * sizeof *out);
    double *all[] = {query, key, f, a, g, z, met, mixed, sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static struct attention_case case_of(const struct nystrom_options *options, size_t n_q, size_t n_k, size_t d,
                                     size_t d_v)
{
    struct attention_case problem =
        attention_case_of_head("nystrom", options, sizeof *options, n_q, n_k, d, d_v);
    problem.start = 0.25f;
    attention_case_fill(&problem, n_q + 3 * n_k, false);
    return problem;
}

/* Neighbours are alike, so that landmarks differ: rows move along a circle of this radius. */
static void make_smooth(float *rows, size_t n, size_t d, float radius)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < d; c++)
            rows[i * d + c] =
                0.3f * rows[i * d + c] + radius * cosf(6.28f * ((float)i / (float)n + (float)c / (float)d));
}

static void check_shape(size_t m, size_t n_q, size_t n_k, size_t d, size_t d_v, size_t samples)
{
    struct nystrom_options options = {(int64_t)m};
    struct attention_case problem = case_of(&options, n_q, n_k, d, d_v);
    char what[100];
    snprintf(what, sizeof what, "m %zu, %zu queries, %zu keys, d %zu and %zu", m, n_q, n_k, d, d_v);
    make_smooth(problem.query, n_q, d, 2);
    make_smooth(problem.key, n_k, d, 2);
    oracle_differences_check(&problem, nystrom, samples, what);
    attention_case_free(&problem);
}

/* One landmark, lengths that m divides and does not, one more row than landmarks, cross attention, several
   chunks of queries and groups of keys, and landmarks that fill more than a tile. */
static void nystrom_is_its_formula(void **state)
{
    (void)state;
    check_shape(1, 2, 2, 1, 1, 10);
    check_shape(1, 30, 20, 4, 3, 1000);
    check_shape(4, 40, 40, 4, 3, 1000);
    check_shape(5, 33, 47, 6, 2, 1000);
    check_shape(7, 8, 8, 5, 4, 1000);
    check_shape(7, 60, 9, 3, 5, 1000);
    check_shape(6, 2000, 1100, 3, 2, 60);
    check_shape(64, 300, 301, 16, 8, 8);
    check_shape(100, 300, 280, 8, 3, 3);
}

static void many_landmarks_are_softmax(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{8, 8, 8},  {9, 8, 8},     {8, 8, 50},
                                       {8, 50, 8}, {200, 3, 500}, {64, 64, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct nystrom_options options = {(int64_t)shapes[i][0]};
        struct attention_case problem = case_of(&options, shapes[i][1], shapes[i][2], 6, 5);
        oracle_differences_check(&problem, nystrom, 1000, "as many landmarks as tokens");
        attention_case_free(&problem);
    }
}

/* The landmarks are those of the sequence itself: its bits are the same beside a sequence with other norms.
   (test_every_mechanism has packing with equal norms.) */
static void the_start_does_not_depend_on_the_batch(void **state)
{
    (void)state;
    enum { N = 90, D = 8 };
    struct nystrom_options options = {6};
    struct attention_case alone = case_of(&options, N, N, D, D), both = alone;
    both.num_sequences = 2;
    both.queries[1] = both.keys[1] = N;
    attention_case_fill(&both, 5, false);
    for (size_t i = N * D; i < 2 * N * D; i++)
        both.query[i] *= 10;
    attention_case_take_sequence(&both, 0, &alone, 0);
    struct attention_result one = attention_case_run(&alone), two = attention_case_run(&both);
    check_same_bits(one.out, two.out, N * D * sizeof(float), "out");
    check_same_bits(one.dkey, two.dkey, N * D * sizeof(float), "dkey");
    attention_result_free(&one);
    attention_result_free(&two);
    attention_case_free(&alone);
    attention_case_free(&both);
}

/* Rows whose products overflow float32 give the weights of one landmark each, and no NaN. */
static void huge_rows_give_finite_results(void **state)
{
    (void)state;
    enum { N = 60, D = 4 };
    struct nystrom_options options = {5};
    struct attention_case problem = case_of(&options, N, N, D, D);
    for (size_t i = 0; i < N * D; i++) {
        problem.query[i] *= 1e25f;
        problem.key[i] *= 1e25f;
    }
    struct attention_result result = attention_case_run(&problem);
    for (size_t i = 0; i < N * D; i++)
        assert_true(isfinite(result.out[i]));
    attention_result_free(&result);
    attention_case_free(&problem);
}

static void causal_attention_is_refused(void **state)
{
    (void)state;
    struct nystrom_options options = {5};
    struct problem_shape shape = {
        .num_queries = 9, .num_keys = 9, .head_dim = 4, .value_dim = 4, .workers = 1};
    const struct mechanism *mechanism = attention_find("nystrom");
    assert_null(mechanism_refuses(mechanism, &options, &shape));
    shape.causal = true;
    assert_non_null(mechanism_refuses(mechanism, &options, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nystrom_is_its_formula),
        cmocka_unit_test(many_landmarks_are_softmax),
        cmocka_unit_test(the_start_does_not_depend_on_the_batch),
        cmocka_unit_test(huge_rows_give_finite_results),
        cmocka_unit_test(causal_attention_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
