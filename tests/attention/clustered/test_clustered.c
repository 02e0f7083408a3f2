/* Clustered attention against its formula in double precision, on every instruction set: clusters by an
   independent K-means of integers, outputs, and gradients by differences at fixed clusters and top keys.
   Bugs planted and caught: a tied bit 1; equal distances to the higher cluster, or to any; no thresholds;
   one update of the centres too few; no random bits for clusters without queries; dS of the top keys, or
   their dV, without the mass; the gradient of the mass of one query only, or added to that of the key; top
   keys left in A, in forward or for dV; as many top keys as keys not exact; top keys taken from weights.
   Covers: clustered_members.c hamming_clusters.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_differences.h"
#include "support/check.h"

/* Filled from clustered's options. */
struct clustered_options {
    int64_t num_clusters, top_keys;
};

enum { BITS = 63, WIDTH = 64, MOST_CLUSTERS = 200 };

/* ---- clusters ------------------------------------------------------------------------------------------ */

static uint64_t code_of(const float *row, size_t d, const float *planes, const float *thresholds)
{
    uint64_t code = 0;
    for (size_t b = 0; b < BITS; b++) {
        double sum = (double)thresholds[b];
        for (size_t c = 0; c < d; c++)
            sum += (double)row[c] * (double)planes[c * WIDTH + b];
        code |= (uint64_t)(sum > 0) << b;
    }
    return code;
}

static size_t nearest(uint64_t code, const uint64_t *centres, size_t clusters)
{
    size_t best = 0;
    for (size_t c = 1; c < clusters; c++)
        if (__builtin_popcountll(code ^ centres[c]) < __builtin_popcountll(code ^ centres[best]))
            best = c;
    return best;
}

/* The majority of each bit; random bits if nobody is assigned. */
static uint64_t centre_of(const uint64_t *codes, const size_t *found, size_t n, size_t cluster, uint64_t key)
{
    uint64_t centre = 0;
    size_t count = 0, ones[BITS] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < BITS && found[i] == cluster; b++) {
            count += b == 0;
            ones[b] += codes[i] >> b & 1;
        }
    uint32_t words[4];
    random_words(random_key(key, RANDOM_GROUPS, 3), cluster, words);
    for (size_t b = 0; b < BITS; b++)
        centre |= (uint64_t)(count == 0 ? words[b / 32] >> b % 32 & 1 : 2 * ones[b] > count) << b;
    return centre;
}

static size_t *assign(const float *query, size_t n, size_t d, size_t clusters, uint64_t key)
{
    float *planes = malloc(d * WIDTH * sizeof *planes), thresholds[WIDTH];
    uint64_t *codes = malloc(n * sizeof *codes), centres[MOST_CLUSTERS];
    size_t *found = calloc(n, sizeof *found), first = 0;
    random_normals(random_key(key, RANDOM_GROUPS, 0), 0, planes, d * WIDTH);
    random_normals(random_key(key, RANDOM_GROUPS, 1), 0, thresholds, WIDTH);
    for (size_t i = 0; i < n; i++)
        codes[i] = code_of(query + i * d, d, planes, thresholds);
    struct random random = random_open(random_key(key, RANDOM_GROUPS, 2));
    for (size_t c = 0; c < clusters; c++) {
        size_t count = n / clusters + (c < n % clusters);
        centres[c] = codes[first + random_below(&random, (uint32_t)count)];
        first += count;
    }
    for (int round = 0; round < 10; round++) {
        for (size_t c = 0; c < clusters && round > 0; c++)
            centres[c] = centre_of(codes, found, n, c, key);
        for (size_t i = 0; i < n; i++)
            found[i] = nearest(codes[i], centres, clusters);
    }
    free(planes);
    free(codes);
    return found;
}

/* ---- the formula at fixed clusters and top keys -------------------------------------------------------- */

static size_t *assigned;      /* (n_q) of the case that is checked */
static unsigned char *is_top; /* (C, n_k) */

static double score(const double *a, const double *b, size_t d)
{
    double sum = 0;
    for (size_t c = 0; c < d; c++)
        sum += a[c] * b[c];
    return sum / sqrt((double)d);
}

/* weights (n_k) = softmax of the scores of one row, over all keys or the top keys. */
static void weigh(const struct oracle_inputs *in, const double *row, const unsigned char *only,
                  double *weights)
{
    double sum = 0;
    for (size_t j = 0; j < in->n_k; j++)
        sum += weights[j] = only == NULL || only[j] ? exp(score(row, in->key + j * in->d, in->d)) : 0;
    for (size_t j = 0; j < in->n_k; j++)
        weights[j] /= sum > 0 ? sum : 1;
}

static void weigh_cluster(const struct oracle_inputs *in, size_t cluster, double *weights)
{
    double *mean = calloc(in->d, sizeof *mean), count = 0;
    for (size_t i = 0; i < in->n_q; i++)
        for (size_t c = 0; c < in->d && assigned[i] == cluster; c++) {
            count += c == 0;
            mean[c] += in->query[i * in->d + c];
        }
    for (size_t c = 0; c < in->d && count > 0; c++)
        mean[c] /= count;
    weigh(in, mean, NULL, weights);
    free(mean);
}

static void clustered(const struct oracle_inputs *in, double *out)
{
    size_t clusters = (size_t)((const struct clustered_options *)in->options)->num_clusters;
    double *of_cluster = malloc(in->n_k * sizeof *of_cluster), *own = malloc(in->n_k * sizeof *own);
    for (size_t cluster = 0; cluster < clusters; cluster++) {
        const unsigned char *top = is_top + cluster * in->n_k;
        double mass = 0;
        weigh_cluster(in, cluster, of_cluster);
        for (size_t j = 0; j < in->n_k; j++)
            mass += top[j] ? of_cluster[j] : 0;
        for (size_t i = 0; i < in->n_q; i++) {
            if (assigned[i] != cluster)
                continue;
            double *to = out + i * in->d_v;
            memset(to, 0, in->d_v * sizeof *to);
            weigh(in, in->query + i * in->d, top, own);
            for (size_t j = 0; j < in->n_k; j++)
                for (size_t c = 0; c < in->d_v; c++)
                    to[c] += (top[j] ? mass * own[j] : of_cluster[j]) * in->value[j * in->d_v + c];
        }
    }
    free(of_cluster);
    free(own);
}

static double *doubles(const float *from, size_t count)
{
    double *to = malloc(count * sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

/* The k keys of each cluster with the largest weights, the first of equal ones. */
static void find_top(const struct attention_case *problem, size_t clusters, size_t k)
{
    struct oracle_inputs in = {.n_q = problem->queries[0],
                               .n_k = problem->keys[0],
                               .d = problem->head_dim,
                               .query = doubles(problem->query, problem->queries[0] * problem->head_dim),
                               .key = doubles(problem->key, problem->keys[0] * problem->head_dim)};
    double *weights = malloc(in.n_k * sizeof *weights);
    for (size_t cluster = 0; cluster < clusters; cluster++) {
        unsigned char *top = is_top + cluster * in.n_k;
        weigh_cluster(&in, cluster, weights);
        for (size_t t = 0; t < k; t++) {
            size_t best = in.n_k;
            for (size_t j = 0; j < in.n_k; j++)
                if (!top[j] && (best == in.n_k || weights[j] > weights[best]))
                    best = j;
            top[best] = 1;
        }
    }
    free(weights);
    free((double *)in.query);
    free((double *)in.key);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static struct attention_case case_of(const struct clustered_options *options, size_t n_q, size_t n_k,
                                     size_t d, size_t d_v)
{
    struct attention_case problem =
        attention_case_of_head("clustered", options, sizeof *options, n_q, n_k, d, d_v);
    problem.call_key = 123;
    problem.start = 0.25f;
    attention_case_fill(&problem, n_q + 3 * n_k, false);
    return problem;
}

static void check_case(struct attention_case *problem, size_t clusters, size_t k, size_t samples)
{
    size_t n_q = problem->queries[0], n_k = problem->keys[0];
    char what[100];
    snprintf(what, sizeof what, "%zu clusters, %zu top, %zu queries, %zu keys, d %zu", clusters, k, n_q, n_k,
             problem->head_dim);
    assigned = assign(problem->query, n_q, problem->head_dim, clusters, random_key(123, RANDOM_HEAD, 0));
    is_top = calloc(clusters * n_k, 1);
    find_top(problem, clusters, k);
    oracle_differences_check(problem, clustered, samples, what);
    free(assigned);
    free(is_top);
}

static void check_shape(size_t clusters, size_t k, size_t n_q, size_t n_k, size_t d, size_t d_v,
                        size_t samples)
{
    struct clustered_options options = {(int64_t)clusters, (int64_t)k};
    struct attention_case problem = case_of(&options, n_q, n_k, d, d_v);
    check_case(&problem, clusters, k, samples);
    attention_case_free(&problem);
}

/* One cluster, clusters of more queries than are computed at a time, fewer and more clusters than are weighed
   at a time, cross attention, and several blocks of rows and of keys. */
static void clustered_is_its_formula(void **state)
{
    (void)state;
    check_shape(1, 0, 2, 1, 1, 1, 10);
    check_shape(1, 1, 70, 5, 3, 2, 1000);
    check_shape(5, 0, 40, 30, 4, 3, 1000);
    check_shape(5, 4, 40, 30, 4, 3, 1000);
    check_shape(9, 7, 10, 8, 5, 6, 1000);
    check_shape(37, 6, 150, 60, 3, 4, 60);
    check_shape(7, 0, 1100, 600, 4, 3, 10);
    check_shape(7, 20, 700, 1100, 4, 3, 10);
    check_shape(130, 5, 200, 40, 16, 2, 10);
}

/* Most queries are equal: of the clusters that start there, all but the first have no queries and get
   random bits, which then attract some of the others. */
static void clusters_may_be_empty(void **state)
{
    (void)state;
    enum { N = 60, D = 16, CLUSTERS = 20 };
    struct clustered_options options = {CLUSTERS, 3};
    struct attention_case problem = case_of(&options, N, N, D, D);
    for (size_t i = 1; i < N - 6; i++)
        attention_case_take_rows(problem.query, i, problem.query, 0, 1, D);
    check_case(&problem, CLUSTERS, 3, 60);
    attention_case_free(&problem);
}

/* As many clusters as queries, or as many top keys as keys. */
static void settings_that_are_exact_are_softmax(void **state)
{
    (void)state;
    static const struct {
        struct clustered_options options;
        size_t n_q, n_k;
    } cases[] = {{{30, 0}, 30, 50}, {{31, 3}, 30, 50}, {{4, 50}, 30, 50}, {{4, 60}, 30, 50}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct attention_case problem = case_of(&cases[i].options, cases[i].n_q, cases[i].n_k, 6, 5);
        struct attention_result ours = attention_case_run(&problem);
        problem.mechanism = attention_find("softmax");
        struct attention_result exact = attention_case_run(&problem);
        attention_case_same_bits(&ours, &exact, &problem, "softmax");
        attention_result_free(&ours);
        attention_result_free(&exact);
        attention_case_free(&problem);
    }
}

/* Both queries have the mean 400, so every weight but that of key 2 is 0 in float32. Key 3 has the second
   largest score all the same, and the second query weighs it most. */
static void top_keys_are_those_of_the_scores(void **state)
{
    (void)state;
    static const float query[] = {801, -1}, key[] = {0, 0.5f, 1, 0.6f};
    struct clustered_options options = {1, 2};
    struct attention_case problem = case_of(&options, 2, 4, 1, 4);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        problem.kernels = *kernels;
        memcpy(problem.query, query, sizeof query);
        memcpy(problem.key, key, sizeof key);
        for (size_t i = 0; i < 16; i++)
            problem.value[i] = i / 4 == i % 4;
        struct attention_result result = attention_case_run(&problem);
        const double expected[] = {0, 0, 1, 0, 0, 0, 1 / (1 + exp(0.4)), 1 / (1 + exp(-0.4))};
        for (size_t i = 0; i < 8; i++)
            check_near((double)result.out[i], expected[i], 1e-6, (*kernels)->name);
        attention_result_free(&result);
    }
    attention_case_free(&problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clustered_is_its_formula),
        cmocka_unit_test(clusters_may_be_empty),
        cmocka_unit_test(settings_that_are_exact_are_softmax),
        cmocka_unit_test(top_keys_are_those_of_the_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
