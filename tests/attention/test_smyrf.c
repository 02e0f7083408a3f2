/* smyrf against its definition in double precision: rows made equally long, projected, sorted by comparison
   and cut, then softmax with the number of common clusters of each pair as multiplicity. Bugs planted and
   caught: the added columns of queries and keys exchanged, or left out; negative projections in reverse
   order; clusters of cluster_size with a shorter last one; one direction for all rounds; clusters of keys cut
   like those of queries.
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

static double square(const double *x, size_t d)
{
    double sum = 0;
    for (size_t c = 0; c < d; c++)
        sum += x[c] * x[c];
    return sum;
}

static double longest(const double *x, size_t n, size_t d)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, square(x + i * d, d));
    return most;
}

/* cluster (n): of each row of one side. */
static void find_clusters(size_t *cluster, const double *x, size_t n, size_t d, double length, bool keys,
                          const float *direction, size_t clusters)
{
    double *projection = malloc(n * sizeof *projection);
    for (size_t i = 0; i < n; i++) {
        projection[i] = sqrt(length - square(x + i * d, d)) * (double)direction[keys ? d : d + 1];
        for (size_t c = 0; c < d; c++)
            projection[i] += x[i * d + c] * (double)direction[c];
    }
    for (size_t i = 0; i < n; i++) {
        size_t rank = 0;
        for (size_t j = 0; j < n; j++)
            rank += projection[j] < projection[i] || (projection[j] == projection[i] && j < i);
        cluster[i] = 0;
        while ((cluster[i] + 1) * n / clusters <= rank)
            cluster[i]++;
    }
    free(projection);
}

static double *times_of(const struct oracle_softmax *o, size_t size, size_t rounds)
{
    double *times = calloc(o->n_q * o->n_k, sizeof *times),
           length = longest(o->query, o->n_q, o->d) + longest(o->key, o->n_k, o->d);
    size_t *query = malloc(o->n_q * sizeof *query), *key = malloc(o->n_k * sizeof *key);
    size_t clusters = (o->n_k + size - 1) / size;
    float *directions = malloc(rounds * (o->d + 2) * sizeof *directions);
    uint64_t head = random_key(123, RANDOM_HEAD, 0);
    random_normals(random_key(head, RANDOM_GROUPS, 0), 0, directions, rounds * (o->d + 2));
    for (size_t round = 0; round < rounds; round++) {
        const float *direction = directions + round * (o->d + 2);
        find_clusters(query, o->query, o->n_q, o->d, length, false, direction, clusters);
        find_clusters(key, o->key, o->n_k, o->d, length, true, direction, clusters);
        for (size_t i = 0; i < o->n_q; i++)
            for (size_t j = 0; j < o->n_k; j++)
                times[i * o->n_k + j] += query[i] == key[j];
    }
    free(query);
    free(key);
    free(directions);
    return times;
}

static struct oracle_softmax oracle_of(const struct attention_case *data)
{
    size_t n_q = data->queries[0], n_k = data->keys[0], d = data->head_dim, d_v = data->value_dim;
    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    to_double(o.query, data->query, n_q * d);
    to_double(o.key, data->key, n_k * d);
    to_double(o.value, data->value, n_k * d_v);
    to_double(o.dout, data->dout, n_q * d_v);
    return o;
}

static void check_array(const float *got, const double *want, const double *bound, size_t count,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], want[i], bound[i] + 8 * FLT_EPSILON * fabs(want[i]), what);
}

/* Runs the oracle and compares, with every table of kernels. Frees both. */
static void check(struct attention_case *data, struct oracle_softmax *o, const char *what)
{
    oracle_softmax_run(o);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data->kernels = *kernels;
        struct attention_result result = attention_case_run(data);
        check_array(result.out, o->out, o->out_bound, o->n_q * o->d_v, what);
        check_array(result.dquery, o->dquery, o->dquery_bound, o->n_q * o->d, what);
        check_array(result.dkey, o->dkey, o->dkey_bound, o->n_k * o->d, what);
        check_array(result.dvalue, o->dvalue, o->dvalue_bound, o->n_k * o->d_v, what);
        attention_result_free(&result);
    }
    oracle_softmax_free(o);
    attention_case_free(data);
}

static void check_shape(size_t n_q, size_t n_k, size_t d, size_t d_v, size_t size, size_t rounds)
{
    char settings[64];
    snprintf(settings, sizeof settings, "cluster_size=%zu rounds=%zu", size, rounds);
    void *options = group_case_options("smyrf", settings);
    struct attention_case data = group_case_new("smyrf", options, n_q, n_k, d, d_v, false);
    for (size_t i = 0; i < n_q * d; i++) /* other lengths than the keys', and no two alike */
        data.query[i] *= 1.5f + (float)(i / d % 7) / 4;
    struct oracle_softmax o = oracle_of(&data);
    o.times = times_of(&o, size, rounds);
    check(&data, &o, settings);
    free(options);
}

/* Lengths that are multiples of the cluster size and not; clusters without a query; one token each. */
static void smyrf_is_softmax_inside_equal_clusters(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 1, 64, 2);
    check_shape(100, 100, 5, 7, 25, 1);
    check_shape(131, 131, 20, 12, 20, 3);
    check_shape(90, 203, 6, 5, 32, 2);
    check_shape(203, 90, 6, 5, 32, 4);
    check_shape(3, 50, 4, 3, 5, 2);
    check_shape(60, 60, 3, 4, 1, 1);
    check_shape(700, 700, 3, 2, 300, 1);
}

/* One cluster: every query meets every key once per round, so the weights are those of softmax. */
static void one_cluster_is_softmax(void **state)
{
    (void)state;
    static const size_t sizes[] = {75, 76, 1000};
    for (size_t s = 0; s < 3; s++)
        for (size_t rounds = 1; rounds < 4; rounds++) {
            char settings[64];
            snprintf(settings, sizeof settings, "cluster_size=%zu rounds=%zu", sizes[s], rounds);
            void *options = group_case_options("smyrf", settings);
            struct attention_case data = group_case_new("smyrf", options, 60, 75, 8, 9, false);
            struct oracle_softmax o = oracle_of(&data);
            check(&data, &o, settings);
            free(options);
        }
}

/* Tokens in tight groups of cluster_size, queries equal to keys and all of one length: whatever the
   direction, sorting keeps groups together, so clusters hold all that softmax weighs. */
static void clusters_find_near_tokens(void **state)
{
    (void)state;
    enum { GROUPS = 12, SIZE = 16, N = GROUPS * SIZE, D = 8 };
    void *options = group_case_options("smyrf", "cluster_size=16 rounds=1");
    struct attention_case data = group_case_new("smyrf", options, N, N, D, D, false);
    float centres[GROUPS * D];
    random_normals(9, 0, centres, GROUPS * D);
    for (size_t i = 0; i < N; i++) {
        double x[D], sum = 0;
        for (size_t c = 0; c < D; c++) {
            x[c] = (double)centres[i % GROUPS * D + c] + 1e-5 * (double)data.query[i * D + c];
            sum += x[c] * x[c];
        }
        for (size_t c = 0; c < D; c++)
            data.query[i * D + c] = data.key[i * D + c] = (float)(12 * x[c] / sqrt(sum));
    }
    struct oracle_softmax o = oracle_of(&data);
    oracle_softmax_run(&o);
    struct attention_result result = attention_case_run(&data);
    check_near_all(result.out, o.out, N * D, 2e-4, "out of tight groups");
    attention_result_free(&result);
    oracle_softmax_free(&o);
    attention_case_free(&data);
    free(options);
}

static void causal_is_refused(void **state)
{
    (void)state;
    void *options = group_case_options("smyrf", "");
    const struct problem_shape causal = {.head_dim = 8, .value_dim = 8, .causal = true, .workers = 1};
    assert_non_null(strstr(mechanism_refuses(attention_find("smyrf"), options, &causal), "no causal form"));
    const struct problem_shape longest = {
        .num_queries = (size_t)1 << 31, .num_keys = 1, .head_dim = 8, .value_dim = 8, .workers = 1};
    assert_non_null(strstr(attention_find("smyrf")->host.refuse(options, &longest), "below 2^32"));
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smyrf_is_softmax_inside_equal_clusters),
        cmocka_unit_test(one_cluster_is_softmax),
        cmocka_unit_test(clusters_find_near_tokens),
        cmocka_unit_test(causal_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
