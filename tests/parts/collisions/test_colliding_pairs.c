/* The weights of pairs, one by one. The rows of both sides are the axes of one scratch and every score is 1,
   so element (i, j) of the gradients is the weight of pair (i, j), in dquery and in dkey.
   Bugs planted and caught: the second tile of keys with the counts of the first; a round left out; the
   tile of keys not taken modulo the number of tiles; keys counted that a query does not see; the factor of
   a sample inverted; the sample drawn from all keys if a query sees fewer; the same starting key again
   after some queries; the last tile of a long sample left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/colliding_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "base/random.h"
#include "support/check.h"

enum { N_Q = 150, N_K = 170, DIM = N_Q + N_K, M = 4, THREADS = 3 };

struct fixture {
    float *query, *key, *dquery, *dkey, *ones; /* (n, DIM) */
    uint16_t query_codes[N_Q * M], key_codes[N_K * M];
    size_t visible[N_Q];
    float of_count[M + 1];
    struct codes queries, keys;
    struct colliding colliding;
    struct colliding_scratch scratches[THREADS];
    void *block;
    struct bucket_pairs bucket; /* its row lists are empty */
};

static struct fixture *fixture_new(bool causal)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct hashing hashing = {.num_hashes = M, .hash_bits = 1};
    f->query = calloc(N_Q * DIM, sizeof(float));
    f->key = calloc(N_K * DIM, sizeof(float));
    f->dquery = calloc(N_Q * DIM, sizeof(float));
    f->dkey = calloc(N_K * DIM, sizeof(float));
    f->ones = calloc(DIM, sizeof(float));
    struct random random = random_open(3);
    for (size_t i = 0; i < N_Q; i++)
        f->query[i * DIM + N_K + i] = f->ones[i] = 1;
    for (size_t j = 0; j < N_K; j++)
        f->key[j * DIM + j] = 1;
    for (size_t i = 0; i < N_Q * M; i++)
        f->query_codes[i] = (uint16_t)random_below(&random, 2);
    for (size_t i = 0; i < N_K * M; i++)
        f->key_codes[i] = (uint16_t)random_below(&random, 2);
    for (size_t i = 0; i < N_Q; i++)
        f->visible[i] = i * N_K / N_Q; /* the first query sees none */
    for (size_t c = 0; c <= M; c++)
        f->of_count[c] = (float)(1 << c);
    f->queries = codes_at(&hashing, f->query_codes, N_Q);
    f->keys = codes_at(&hashing, f->key_codes, N_K);
    f->colliding = (struct colliding){&f->queries, &f->keys, f->of_count, causal ? f->visible : NULL};
    struct arena arena = arena_on(NULL);
    for (int measured = 0; measured < 2; measured++) {
        for (size_t t = 0; t < THREADS; t++)
            colliding_scratch_init(&f->scratches[t], &arena);
        if (measured == 0)
            f->block = aligned_alloc(64, (arena.used + 63) / 64 * 64);
        arena = arena_on(f->block);
    }
    /* score = bias = 1: values and dout are 0 except for the ones in the second half. */
    f->bucket = (struct bucket_pairs){.query = f->query,
                                      .key = f->key,
                                      .value = f->ones + N_Q,
                                      .dout = f->ones + N_Q,
                                      .ld_query = DIM,
                                      .ld_key = DIM,
                                      .dim = DIM,
                                      .value_dim = 1,
                                      .bias = f->ones,
                                      .dquery = f->dquery,
                                      .dkey = f->dkey,
                                      .scale = 1,
                                      .weight = PAIR_CONSTANT};
    return f;
}

static void fixture_free(struct fixture *f)
{
    free(f->query), free(f->key), free(f->dquery), free(f->dkey), free(f->ones), free(f->block), free(f);
}

static float weight_in_query(const struct fixture *f, size_t i, size_t j)
{
    return f->dquery[i * DIM + j];
}

static void check_transposed(const struct fixture *f)
{
    for (size_t i = 0; i < N_Q; i++)
        for (size_t j = 0; j < N_K; j++)
            check_near((double)f->dkey[j * DIM + N_K + i], (double)weight_in_query(f, i, j), 0, "dkey");
}

static float factor_of(const struct fixture *f, size_t i, size_t j)
{
    size_t count = 0;
    for (size_t h = 0; h < M; h++)
        count += f->query_codes[i * M + h] == f->key_codes[j * M + h];
    return f->of_count[count];
}

static bool is_seen(const struct fixture *f, size_t i, size_t j)
{
    return f->colliding.visible == NULL || j < f->visible[i];
}

static void bucket_has_all_its_pairs(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int causal = 0; causal < 2; causal++) {
            struct fixture *f = fixture_new(causal);
            uint32_t queries[N_Q], keys[N_K];
            size_t a = 0, b = 0; /* two of every three rows */
            for (uint32_t i = 0; i < N_Q; i++)
                if (i % 3 > 0)
                    queries[a++] = i;
            for (uint32_t j = 0; j < N_K; j++)
                if (j % 3 > 0)
                    keys[b++] = j;
            f->bucket.queries = queries, f->bucket.num_queries = a;
            f->bucket.keys = keys, f->bucket.num_keys = b;
            colliding_add(*kernels, &f->colliding, &f->scratches[0], &f->bucket);
            for (size_t i = 0; i < N_Q; i++)
                for (size_t j = 0; j < N_K; j++) {
                    bool meets = i % 3 > 0 && j % 3 > 0 && is_seen(f, i, j);
                    check_near((double)weight_in_query(f, i, j), meets ? (double)factor_of(f, i, j) : 0, 0,
                               "weight in a bucket");
                }
            check_transposed(f);
            fixture_free(f);
        }
}

static void head_has_all_its_pairs(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (int threads = 1; threads <= THREADS; threads++) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        for (int form = 0; form < 4; form++) {
            struct fixture *f = fixture_new(form & 1);
            if (form & 2) /* more queries than keys */
                f->keys.n = 60;
            colliding_add_all(kernels_named(NULL, &(const char *){0}), pool, &f->colliding, f->scratches,
                              &f->bucket);
            for (size_t i = 0; i < N_Q; i++)
                for (size_t j = 0; j < N_K; j++)
                    check_near((double)weight_in_query(f, i, j),
                               j < f->keys.n && is_seen(f, i, j) ? (double)factor_of(f, i, j) : 0, 0,
                               "weight in a head");
            check_transposed(f);
            fixture_free(f);
        }
        pool_free(&host, pool);
    }
}

/* Each query takes the required number of partners, each with the weight that compensates for those left
   out. */
static void check_sample(size_t most, bool causal, bool counted, uint64_t key, size_t *taken)
{
    struct fixture *f = fixture_new(causal);
    uint32_t rows[N_K];
    for (uint32_t j = 0; j < N_K; j++)
        rows[j] = j;
    f->bucket.queries = f->bucket.keys = rows;
    f->bucket.num_queries = N_Q;
    f->bucket.num_keys = N_K;
    colliding_sample(kernels_named(NULL, &(const char *){0}), &f->colliding, &f->scratches[0], &f->bucket,
                     most, key, counted);
    for (size_t i = 0; i < N_Q; i++) {
        size_t count = causal ? f->visible[i] : N_K, chosen = 0, take = count < most ? count : most;
        for (size_t j = 0; j < N_K; j++) {
            double weight = (double)weight_in_query(f, i, j);
            if (weight == 0)
                continue;
            assert_true(is_seen(f, i, j));
            double want = (double)count / (double)take * (counted ? (double)factor_of(f, i, j) : 1);
            check_near(weight, want, want * 1e-6, "weight of one that was drawn");
            taken[i * N_K + j]++;
            chosen++;
        }
        assert_int_equal(chosen, take);
    }
    check_transposed(f);
    fixture_free(f);
}

static void samples_have_their_size_and_weight(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 7, 63, 64, 65, 130, 169, 170, 200};
    size_t *taken = calloc(N_Q * N_K, sizeof *taken);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int form = 0; form < 4; form++)
            check_sample(sizes[s], form & 1, form & 2, 5, taken);
    free(taken);
}

/* Each query has its own starting key: two samples of 7 out of 170 with random starts are equal once in
   170. */
static void queries_draw_apart(void **state)
{
    (void)state;
    size_t *taken = calloc(N_Q * N_K, sizeof *taken), same = 0;
    check_sample(7, false, false, 5, taken);
    for (size_t i = 0; i < N_Q; i++)
        for (size_t j = 0; j < i; j++)
            same += memcmp(taken + i * N_K, taken + j * N_K, N_K * sizeof *taken) == 0;
    assert_true(same < N_Q * (N_Q - 1) / 2 / 100);
    free(taken);
}

/* Every key is drawn equally often: 600 draws with probability 7 / 170 have a standard deviation of 4.9;
   none of 25,500 pairs is beyond 5.5 of them (6.5 above: the distribution is skewed to the right). */
static void every_partner_is_as_likely(void **state)
{
    (void)state;
    enum { KEYS = 600, MOST = 7 };
    size_t *taken = calloc(N_Q * N_K, sizeof *taken);
    for (uint64_t key = 0; key < KEYS; key++)
        check_sample(MOST, false, false, key, taken);
    double mean = (double)KEYS * MOST / N_K, deviation = 4.9;
    for (size_t i = 0; i < N_Q * N_K; i++)
        assert_true((double)taken[i] > mean - 5.5 * deviation && (double)taken[i] < mean + 6.5 * deviation);
    free(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_has_all_its_pairs),           cmocka_unit_test(head_has_all_its_pairs),
        cmocka_unit_test(samples_have_their_size_and_weight), cmocka_unit_test(queries_draw_apart),
        cmocka_unit_test(every_partner_is_as_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
