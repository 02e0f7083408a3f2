/* reformer against its definition in double precision: queries normed as keys, hashed, sorted by comparison
   and cut into chunks, then softmax with the number of rounds in which a pair meets as multiplicity, and the
   gradient through the norm. Bugs planted and caught: negative products in the first half of the buckets; one
   rotation for all rounds; no chunk before, or two; chunks of chunk_size with a shorter last one; the token
   itself met; causal: buckets of a level cut together, queries of an earlier level once more, the rotations
   of a level not those of the next; keys not normed; the gradient of the keys not through the norm, or left
   out.
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

/* The bucket of x among `buckets`, in one round. */
static size_t bucket_of(const double *x, size_t d, uint64_t round_key, size_t buckets)
{
    size_t best = 0;
    double most = -INFINITY;
    float *direction = malloc(d * sizeof *direction);
    for (size_t b = 0; b < buckets && buckets > 1; b++) {
        double product = 0;
        random_normals(round_key, b % (buckets / 2) * d, direction, d);
        for (size_t c = 0; c < d; c++)
            product += (b < buckets / 2 ? 1 : -1) * x[c] * (double)direction[c];
        if (product > most) {
            most = product;
            best = b;
        }
    }
    free(direction);
    return best;
}

/* Number of tokens before token i among n sorted by (bucket, position). */
static size_t rank_of(const size_t *bucket, size_t n, size_t i)
{
    size_t rank = 0;
    for (size_t j = 0; j < n; j++)
        rank += bucket[j] < bucket[i] || (bucket[j] == bucket[i] && j < i);
    return rank;
}

/* The pairs of one round. */
static void meet(double *times, const double *key, size_t n, size_t d, size_t chunk, uint64_t round_key)
{
    size_t chunks = (n + chunk - 1) / chunk, buckets = 1;
    size_t *bucket = malloc(n * sizeof *bucket), *own = malloc(n * sizeof *own);
    while (2 * buckets <= 2 * chunks)
        buckets *= 2;
    for (size_t i = 0; i < n; i++)
        bucket[i] = bucket_of(key + i * d, d, round_key, buckets);
    for (size_t i = 0; i < n; i++)
        for (own[i] = 0; (own[i] + 1) * n / chunks <= rank_of(bucket, n, i);)
            own[i]++;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            times[i * n + j] += i != j && (own[j] == own[i] || own[j] + 1 == own[i]);
    free(bucket);
    free(own);
}

/* Causal: query i alone decides the number of buckets; ranks count earlier tokens of the same bucket. */
static void meet_earlier(double *times, const double *key, size_t n, size_t d, size_t chunk,
                         uint64_t round_key)
{
    size_t *bucket = malloc(n * sizeof *bucket), *rank = malloc(n * sizeof *rank);
    for (size_t i = 0; i < n; i++) {
        size_t buckets = 1;
        while (2 * buckets * chunk <= i)
            buckets *= 2;
        for (size_t j = 0; j <= i; j++) {
            bucket[j] = bucket_of(key + j * d, d, round_key, buckets);
            rank[j] = 0;
            for (size_t before = 0; before < j; before++)
                rank[j] += bucket[before] == bucket[j];
        }
        for (size_t j = 0; j < i; j++)
            times[i * n + j] += bucket[j] == bucket[i] && rank[j] / chunk + 1 >= rank[i] / chunk;
    }
    free(bucket);
    free(rank);
}

static double size_of(const double *x, size_t d)
{
    double sum = 0;
    for (size_t c = 0; c < d; c++)
        sum += x[c] * x[c];
    return sqrt(sum / (double)d + 1e-6);
}

/* Queries normed as keys; times is for the caller. */
static struct oracle_softmax oracle_of(const struct attention_case *data)
{
    size_t n = data->queries[0], d = data->head_dim, d_v = data->value_dim;
    struct oracle_softmax o = oracle_softmax_new(n, n, d, d_v);
    to_double(o.query, data->query, n * d);
    to_double(o.value, data->value, n * d_v);
    to_double(o.dout, data->dout, n * d_v);
    for (size_t i = 0; i < n * d; i++)
        o.key[i] = o.query[i] / size_of(o.query + i / d * d, d);
    o.input_error = 4 * FLT_EPSILON * sqrt((double)d); /* a number of a normed row is at most sqrt(d) */
    o.times = calloc(n * n, sizeof *o.times);
    return o;
}

/* A token that meets nothing meets itself. */
static void add_own(struct oracle_softmax *o)
{
    for (size_t i = 0; i < o->n_q; i++) {
        double met = 0;
        for (size_t j = 0; j < o->n_k; j++)
            met += o->times[i * o->n_k + j];
        o->times[i * o->n_k + i] = met == 0;
    }
}

/* dquery += the gradient of the normed rows, taken through the norm, and its bound. */
static void add_norm_gradient(struct oracle_softmax *o)
{
    size_t d = o->d;
    for (size_t i = 0; i < o->n_q; i++) {
        const double *key = o->key + i * d, *dkey = o->dkey + i * d, *bound = o->dkey_bound + i * d;
        double size = size_of(o->query + i * d, d), along = 0, off = 0;
        for (size_t c = 0; c < d; c++) {
            along += key[c] * dkey[c] / (double)d;
            off += fabs(key[c]) * (bound[c] + 8 * FLT_EPSILON * fabs(dkey[c])) / (double)d;
        }
        for (size_t c = 0; c < d; c++) {
            o->dquery[i * d + c] += (dkey[c] - key[c] * along) / size;
            o->dquery_bound[i * d + c] +=
                (bound[c] + fabs(key[c]) * off + 8 * FLT_EPSILON * (fabs(dkey[c]) + fabs(key[c] * along))) /
                size;
        }
    }
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
    add_own(o);
    oracle_softmax_run(o);
    add_norm_gradient(o);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data->kernels = *kernels;
        struct attention_result result = attention_case_run(data);
        check_array(result.out, o->out, o->out_bound, o->n_q * o->d_v, what);
        check_array(result.dquery, o->dquery, o->dquery_bound, o->n_q * o->d, what);
        check_array(result.dvalue, o->dvalue, o->dvalue_bound, o->n_k * o->d_v, what);
        for (size_t i = 0; i < o->n_k * o->d; i++)
            assert_true(result.dkey[i] == 0);
        attention_result_free(&result);
    }
    oracle_softmax_free(o);
    attention_case_free(data);
}

static void check_shape(size_t n, size_t d, size_t d_v, size_t chunk, size_t rounds, bool causal)
{
    char settings[64];
    snprintf(settings, sizeof settings, "chunk_size=%zu rounds=%zu", chunk, rounds);
    void *options = group_case_options("reformer", settings);
    struct attention_case data = group_case_new("reformer", options, n, n, d, d_v, causal);
    for (size_t i = 0; i < n * d; i++) /* rows of several lengths */
        data.query[i] *= 0.5f + (float)(i / d % 7) / 4;
    struct oracle_softmax o = oracle_of(&data);
    uint64_t head = random_key(123, RANDOM_HEAD, 0);
    for (size_t round = 0; round < rounds; round++)
        (causal ? meet_earlier : meet)(o.times, o.key, n, d, chunk, random_key(head, RANDOM_GROUPS, round));
    check(&data, &o, settings);
    free(options);
}

/* Lengths that are multiples of the chunk and not; chunks of one token, and longer than a tile. */
static void reformer_is_softmax_inside_sorted_chunks(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 64, 2, false);
    check_shape(2, 3, 2, 1, 1, false);
    check_shape(96, 5, 7, 16, 1, false);
    check_shape(131, 20, 12, 16, 3, false);
    check_shape(150, 6, 5, 1, 2, false);
    check_shape(400, 4, 3, 190, 2, false);
}

static void causal_chunks_have_earlier_tokens(void **state)
{
    (void)state;
    check_shape(1, 1, 1, 64, 2, true);
    check_shape(96, 5, 7, 16, 1, true);
    check_shape(131, 20, 12, 16, 3, true);
    check_shape(90, 6, 5, 1, 2, true);
    check_shape(200, 4, 3, 150, 2, true);
}

/* One chunk: all other tokens, or all earlier ones; causal, two chunks are as good. */
static void one_chunk_is_softmax_over_the_others(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (size_t rounds = 1; rounds < 4; rounds++) {
            char settings[64];
            snprintf(settings, sizeof settings, "chunk_size=%d rounds=%zu", causal ? 38 : 75, rounds);
            void *options = group_case_options("reformer", settings);
            struct attention_case data = group_case_new("reformer", options, 75, 75, 8, 9, causal != 0);
            struct oracle_softmax o = oracle_of(&data);
            for (size_t i = 0; i < 75; i++)
                for (size_t j = 0; j < (causal ? i : 75); j++)
                    o.times[i * 75 + j] = i != j;
            check(&data, &o, settings);
            free(options);
        }
}

/* Every token occurs twice, far apart and so long that its twin outweighs all others. Twins have the same
   bucket, so most meet, and more with more rounds; in random chunks about 1 in 8 would in a round. */
static void twins_find_each_other(void **state)
{
    (void)state;
    enum { N = 1024, D = 16, TWINS = N / 2 };
    size_t found[2];
    for (size_t few = 0; few < 2; few++) {
        void *options =
            group_case_options("reformer", few ? "chunk_size=64 rounds=1" : "chunk_size=64 rounds=4");
        struct attention_case data = group_case_new("reformer", options, N, N, D, 1, false);
        for (size_t i = 0; i < TWINS * D; i++)
            data.query[i] = data.query[TWINS * D + i] = 40 * data.query[i];
        for (size_t i = 0; i < N; i++)
            data.value[i] = (float)(i % TWINS);
        struct attention_result result = attention_case_run(&data);
        found[few] = 0;
        for (size_t i = 0; i < N; i++)
            found[few] += fabsf(result.out[i] - data.value[i]) < 0.5f;
        attention_result_free(&result);
        attention_case_free(&data);
        free(options);
    }
    assert_true(found[1] > N * 6 / 10);
    assert_true(found[0] > N * 9 / 10);
}

static void only_the_same_tokens_attend(void **state)
{
    (void)state;
    void *options = group_case_options("reformer", "");
    const struct problem_shape cross = {
        .num_queries = 5, .num_keys = 6, .head_dim = 8, .value_dim = 8, .workers = 1};
    const struct problem_shape longest = {.num_queries = (size_t)1 << 29,
                                          .num_keys = (size_t)1 << 29,
                                          .head_dim = 8,
                                          .value_dim = 8,
                                          .workers = 1};
    assert_non_null(
        strstr(attention_find("reformer")->host.refuse(options, &cross), "as many queries as keys"));
    assert_non_null(strstr(attention_find("reformer")->host.refuse(options, &longest), "2^32 / 6"));
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reformer_is_softmax_inside_sorted_chunks),
        cmocka_unit_test(causal_chunks_have_earlier_tokens),
        cmocka_unit_test(one_chunk_is_softmax_over_the_others),
        cmocka_unit_test(twins_find_each_other),
        cmocka_unit_test(only_the_same_tokens_attend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
