/* routing against its definition in double precision: scores with the centroids, the best of each centroid by
   counting better ones, attention of normed rows in each cluster by itself (oracle_groups.h), the mean over
   the clusters of a query, and the loss of the centroids with differences for its gradient. Bugs planted and
   caught: the sum instead of the mean, forward or backward; one softmax over all clusters; keys routed by
   queries; w rounded down; causal: queries routed without keys, w by all tokens; the loss of queries only, or
   not divided by d; the gradient of the loss with the wrong sign; the gradient of one place only.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle_groups.h"
#include "support/check.h"
#include "support/group_case.h"

static double *normed(const float *x, size_t n, size_t d)
{
    double *out = malloc(n * d * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        double mean = 0, variance = 0;
        for (size_t c = 0; c < d; c++)
            mean += (double)x[i * d + c] / (double)d;
        for (size_t c = 0; c < d; c++)
            variance += pow((double)x[i * d + c] - mean, 2) / (double)d;
        for (size_t c = 0; c < d; c++)
            out[i * d + c] = ((double)x[i * d + c] - mean) / sqrt(variance + 1e-6);
    }
    return out;
}

static double score(const double *x, const double *centroid, size_t d)
{
    double sum = 0;
    for (size_t c = 0; c < d; c++)
        sum += x[c] * centroid[c];
    return sum;
}

static size_t nearest(const double *x, const double *centroids, size_t groups, size_t d)
{
    size_t best = 0;
    for (size_t b = 1; b < groups; b++)
        if (score(x, centroids + b * d, d) > score(x, centroids + best * d, d))
            best = b;
    return best;
}

static size_t share_of(size_t n, size_t groups)
{
    return (n + groups - 1) / groups;
}

/* in (n): the vectors x that the centroid takes. */
static void take_best(bool *in, const double *x, size_t n, size_t d, const double *centroid, size_t share)
{
    for (size_t i = 0; i < n; i++) {
        size_t better = 0;
        for (size_t j = 0; j < n; j++) {
            double own = score(x + i * d, centroid, d), other = score(x + j * d, centroid, d);
            better += other > own || (other == own && j < i);
        }
        in[i] = better < share;
    }
}

struct oracle {
    const struct attention_case *data;
    size_t n_q, n_k, d, d_v, groups;
    double *centroids, *query, *key; /* query, key: normed */
    double *arrays[4], *bounds[4];   /* out, dquery, dkey, dvalue */
};

static void sizes_of(const struct oracle *o, size_t sizes[4])
{
    sizes[0] = o->n_q * o->d_v;
    sizes[1] = o->n_q * o->d;
    sizes[2] = o->n_k * o->d;
    sizes[3] = o->n_k * o->d_v;
}

static struct oracle oracle_of(const struct attention_case *data, size_t groups)
{
    struct oracle o = {.data = data,
                       .n_q = data->queries[0],
                       .n_k = data->keys[0],
                       .d = data->head_dim,
                       .d_v = data->value_dim,
                       .groups = groups};
    size_t sizes[4];
    o.query = normed(data->query, o.n_q, o.d);
    o.key = normed(data->key, o.n_k, o.d);
    o.centroids = malloc(groups * o.d * sizeof(double));
    for (size_t i = 0; i < groups * o.d; i++)
        o.centroids[i] = (double)data->params[i];
    sizes_of(&o, sizes);
    for (size_t a = 0; a < 4; a++) {
        o.arrays[a] = calloc(sizes[a], sizeof(double));
        o.bounds[a] = calloc(sizes[a], sizeof(double));
    }
    return o;
}

static void oracle_free(struct oracle *o)
{
    free(o->centroids);
    free(o->query);
    free(o->key);
    for (size_t a = 0; a < 4; a++) {
        free(o->arrays[a]);
        free(o->bounds[a]);
    }
}

/* Adds attention with the multiplicities `times`, where query i counts 1 / parts[i]; owns times. */
static void attend(struct oracle *o, double *times, const double *parts)
{
    const struct attention_case *data = o->data;
    struct oracle_groups g = oracle_groups_new(o->n_q, o->n_k, o->d, o->d_v, 1, 1);
    struct oracle_softmax *s = &g.softmax;
    size_t sizes[4];
    double *from[] = {s->out, s->dquery, s->dkey, s->dvalue},
           *bounds[] = {s->out_bound, s->dquery_bound, s->dkey_bound, s->dvalue_bound};
    g.norm = true;
    free(s->times);
    s->times = times;
    for (size_t i = 0; i < o->n_q * o->d; i++)
        g.query[i] = (double)data->query[i];
    for (size_t i = 0; i < o->n_k * o->d; i++)
        g.key[i] = (double)data->key[i];
    for (size_t i = 0; i < o->n_k * o->d_v; i++)
        s->value[i] = (double)data->value[i];
    for (size_t i = 0; i < o->n_q * o->d_v; i++)
        s->dout[i] = parts[i / o->d_v] == 0 ? 0 : (double)data->dout[i] / parts[i / o->d_v];
    oracle_groups_attend(&g);
    sizes_of(o, sizes);
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < sizes[a]; i++) {
            double part = a > 0 ? 1 : parts[i / o->d_v] == 0 ? 1 : parts[i / o->d_v];
            o->arrays[a][i] += from[a][i] / part;
            o->bounds[a][i] += bounds[a][i] / part + 8 * FLT_EPSILON * fabs(from[a][i]);
        }
    oracle_groups_free(&g);
}

/* Each centroid takes its best queries and keys. */
static void attend_in_clusters(struct oracle *o)
{
    bool *query = malloc(o->groups * o->n_q), *key = malloc(o->groups * o->n_k);
    double *parts = calloc(o->n_q, sizeof *parts);
    for (size_t b = 0; b < o->groups; b++) {
        const double *centroid = o->centroids + b * o->d;
        take_best(query + b * o->n_q, o->query, o->n_q, o->d, centroid, share_of(o->n_q, o->groups));
        take_best(key + b * o->n_k, o->key, o->n_k, o->d, centroid, share_of(o->n_k, o->groups));
        for (size_t i = 0; i < o->n_q; i++)
            parts[i] += query[b * o->n_q + i];
    }
    for (size_t b = 0; b < o->groups; b++) {
        double *times = calloc(o->n_q * o->n_k, sizeof *times);
        for (size_t i = 0; i < o->n_q; i++)
            for (size_t j = 0; j < o->n_k; j++)
                times[i * o->n_k + j] = query[b * o->n_q + i] && key[b * o->n_k + j];
        attend(o, times, parts);
    }
    free(query);
    free(key);
    free(parts);
}

/* The routing vectors of causal problems. */
static double *means(const struct oracle *o)
{
    double *x = malloc(o->n_q * o->d * sizeof *x);
    for (size_t i = 0; i < o->n_q * o->d; i++)
        x[i] = (o->query[i] + o->key[i]) / 2;
    return x;
}

/* Each token is in its nearest cluster and sees its latest tokens. */
static void attend_to_the_past(struct oracle *o)
{
    double *x = means(o), *times = calloc(o->n_q * o->n_k, sizeof *times),
           *parts = calloc(o->n_q, sizeof *parts);
    for (size_t i = 0; i < o->n_q; i++) {
        size_t own = nearest(x + i * o->d, o->centroids, o->groups, o->d), seen = 0;
        parts[i] = 1;
        for (size_t j = i + 1; j-- > 0;)
            if (nearest(x + j * o->d, o->centroids, o->groups, o->d) == own &&
                seen++ < share_of(i + 1, o->groups))
                times[i * o->n_k + j] = 1;
    }
    attend(o, times, parts);
    free(parts);
    free(x);
}

static double distance(const double *x, size_t n, const struct oracle *o)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double *centroid = o->centroids + nearest(x + i * o->d, o->centroids, o->groups, o->d) * o->d;
        for (size_t c = 0; c < o->d; c++)
            sum += pow(x[i * o->d + c] - centroid[c], 2);
    }
    return sum / (double)n / (double)o->d;
}

static double loss_of(const struct oracle *o)
{
    if (!o->data->causal)
        return (distance(o->query, o->n_q, o) + distance(o->key, o->n_k, o)) / 2;
    double *x = means(o), loss = distance(x, o->n_q, o);
    free(x);
    return loss;
}

static void check_loss(struct oracle *o, const struct attention_result *result)
{
    check_near(result->auxiliary, loss_of(o), 1e-5, "loss");
    for (size_t i = 0; i < o->groups * o->d; i++) {
        double before = o->centroids[i], step = 1e-6;
        o->centroids[i] = before + step;
        double want = loss_of(o);
        o->centroids[i] = before - step;
        want = (want - loss_of(o)) / (2 * step);
        o->centroids[i] = before;
        check_near((double)result->auxiliary_dparams[i], want, 1e-6, "gradient of the loss");
    }
}

static void check_shape(size_t n_q, size_t n_k, size_t d, size_t d_v, size_t groups, bool causal)
{
    char settings[64];
    snprintf(settings, sizeof settings, "num_clusters=%zu", groups);
    void *options = group_case_options("routing", settings);
    struct attention_case data = group_case_new("routing", options, n_q, n_k, d, d_v, causal);
    struct oracle o = oracle_of(&data, groups);
    if (causal)
        attend_to_the_past(&o);
    else
        attend_in_clusters(&o);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data.kernels = *kernels;
        struct attention_result result = attention_case_run(&data);
        const float *got[] = {result.out, result.dquery, result.dkey, result.dvalue};
        size_t sizes[4];
        sizes_of(&o, sizes);
        for (size_t a = 0; a < 4; a++)
            for (size_t i = 0; i < sizes[a]; i++)
                check_near((double)got[a][i], o.arrays[a][i], o.bounds[a][i] + 1e-7, settings);
        for (size_t i = 0; i < groups * d; i++)
            assert_true(result.dparams[i] == 0);
        check_loss(&o, &result);
        attention_result_free(&result);
    }
    oracle_free(&o);
    attention_case_free(&data);
    free(options);
}

static void routing_is_the_mean_of_its_clusters(void **state)
{
    (void)state;
    check_shape(1, 1, 4, 3, 1, false);
    check_shape(60, 60, 12, 5, 4, false);
    check_shape(70, 133, 8, 9, 6, false);
    check_shape(5, 9, 7, 4, 16, false); /* more clusters than tokens */
    check_shape(131, 67, 20, 3, 70, false);
}

static void causal_routing_sees_the_past(void **state)
{
    (void)state;
    check_shape(1, 1, 4, 3, 1, true);
    check_shape(60, 60, 12, 5, 4, true);
    check_shape(131, 131, 8, 9, 6, true);
}

/* As the mechanism softmax computes it from normed rows. */
static void one_cluster_is_softmax_of_normed_rows(void **state)
{
    (void)state;
    enum { N_Q = 90, N_K = 75, D = 12, D_V = 9 };
    void *options = group_case_options("routing", "num_clusters=1");
    struct attention_case data = group_case_new("routing", options, N_Q, N_K, D, D_V, false);
    struct attention_result routed = attention_case_run(&data);
    double *query = normed(data.query, N_Q, D), *key = normed(data.key, N_K, D);
    for (size_t i = 0; i < N_Q * D; i++)
        data.query[i] = (float)query[i];
    for (size_t i = 0; i < N_K * D; i++)
        data.key[i] = (float)key[i];
    data.mechanism = attention_find("softmax");
    struct attention_result exact = attention_case_run(&data);
    for (size_t i = 0; i < N_Q * D_V; i++)
        check_near((double)routed.out[i], (double)exact.out[i], 1e-5, "out");
    for (size_t i = 0; i < N_K * D_V; i++)
        check_near((double)routed.dvalue[i], (double)exact.dvalue[i], 1e-5, "dvalue");
    free(query);
    free(key);
    attention_result_free(&routed);
    attention_result_free(&exact);
    attention_case_free(&data);
    free(options);
}

/* Steps against the gradient of the loss take each centroid to the mean of the tokens nearest to it. */
static void centroids_find_groups_of_tokens(void **state)
{
    (void)state;
    enum { N = 120, D = 16, GROUPS = 4 };
    void *options = group_case_options("routing", "num_clusters=4");
    struct attention_case data = group_case_new("routing", options, N, N, D, 3, false);
    for (size_t i = GROUPS; i < N; i++)
        for (size_t c = 0; c < D; c++)
            data.query[i * D + c] = data.query[i % GROUPS * D + c] + 0.1f * data.query[i * D + c];
    memcpy(data.key, data.query, N * D * sizeof(float));
    double *x = normed(data.query, GROUPS, D), first = 0;
    for (size_t i = 0; i < GROUPS * D; i++) /* nearer to its own group than to others */
        data.params[i] = data.params[i] + 0.7f * (float)x[i];
    for (size_t step = 0; step < 100; step++) {
        struct attention_result result = attention_case_run(&data);
        first = step == 0 ? result.auxiliary : first;
        for (size_t i = 0; i < GROUPS * D; i++)
            data.params[i] -= 20 * result.auxiliary_dparams[i];
        if (step == 99)
            assert_true(result.auxiliary < 0.02 && first > 0.5);
        attention_result_free(&result);
    }
    free(x);
    attention_case_free(&data);
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routing_is_the_mean_of_its_clusters),
        cmocka_unit_test(causal_routing_sees_the_past),
        cmocka_unit_test(one_cluster_is_softmax_of_normed_rows),
        cmocka_unit_test(centroids_find_groups_of_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
