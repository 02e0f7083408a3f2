/* All colliding pairs over hashes against every pair by the slot of table "ref", one at a time. Codes are
   crowded or spread, so that every path for a bucket and for a head is taken. On one thread and on three.
   Bugs planted and caught: the last bucket of a stretch dropped, a scale 1 % off, the count instead of its
   inverse if pairs count once, 1 instead of the count if a head is processed whole, no sums of dV, the
   bucket after a crowded one skipped; with gradient_hashes, the weight of one hash instead of its share, the
   first hashes always, and a hash drawn twice. Caught by test_yoso: memory for sums that shrinks as rows get
   wider, sums of keys that no query sees.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

#define EPS 0x1p-24

enum { N_Q = 90, N_K = 70, M = 3, D = 6, D_V = 4, BITS = 5 };

static void fill_rows(const struct pair_rows *rows, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        double square = 0;
        random_normals(random_key(key, RANDOM_DATA, i), 0, rows->unit + i * rows->ld, D);
        random_normals(random_key(key, RANDOM_DATA, i), D, rows->value + i * rows->ld, D_V);
        memset(rows->gradient + i * rows->ld, 0, D * sizeof(float));
        if (rows->sum != NULL)
            memset(rows->sum + i * rows->ld, 0, D_V * sizeof(float));
        for (size_t c = 0; c < D; c++)
            square += pow((double)rows->unit[i * rows->ld + c], 2);
        for (size_t c = 0; c < D; c++)
            rows->unit[i * rows->ld + c] /= (float)sqrt(square);
    }
}

static bool share(const uint16_t *a, const uint16_t *b, uint32_t hashes)
{
    for (uint32_t h = 0; h < hashes; h++)
        if (a[h] == b[h])
            return true;
    return false;
}

static void check_form(const struct kernels *kernels, struct pool *pool, enum pair_weight weight, bool biased,
                       bool once, bool near, uint32_t spread)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS};
    uint16_t query_codes[N_Q * M], key_codes[N_K * M];
    float bias[N_Q], want[(N_Q + N_K) * D] = {0}, want_sum[N_K * D_V] = {0};
    struct random random = random_open(spread);
    for (size_t i = 0; i < N_Q * M; i++)
        query_codes[i] = (uint16_t)random_below(&random, spread);
    for (size_t i = 0; i < N_K * M; i++)
        key_codes[i] = (uint16_t)random_below(&random, spread);
    random_normals(3, 0, bias, N_Q);
    struct pair_work work;
    struct pairs pairs = {.dim = D,
                          .value_dim = D_V,
                          .bias = biased ? bias : NULL,
                          .scale = 0.3f,
                          .weight = weight,
                          .once = once,
                          .near = near,
                          .hash_bits = BITS};
    struct arena arena = arena_on(NULL);
    void *block = NULL;
    for (int measured = 0; measured < 2; measured++) {
        pair_rows_init(&pairs.queries, &arena, N_Q, D, D_V, false, near);
        pair_rows_init(&pairs.keys, &arena, N_K, D, D_V, true, near);
        pair_work_init(&work, &arena, &hashing, N_Q, N_K, D, D_V, (size_t)pool_threads(pool));
        if (measured == 0)
            block = aligned_alloc(64, arena.used);
        arena = arena_on(block);
    }
    fill_rows(&pairs.queries, N_Q, 1);
    fill_rows(&pairs.keys, N_K, 2);
    const struct kernels *plain = kernels_named("ref", &(const char *){0}); /* queries the CPU: slow */
    for (uint32_t h = 0; h < M; h++)
        for (uint32_t i = 0; i < N_Q; i++)
            for (uint32_t j = 0; j < N_K; j++)
                if (query_codes[i * M + h] == key_codes[j * M + h]) {
                    for (size_t c = 0; c < D_V; c++)
                        want_sum[j * D_V + c] += pairs.queries.value[i * pairs.queries.ld + c];
                    if (once && share(query_codes + i * M, key_codes + j * M, h))
                        continue;
                    plain->pairs.bucket(
                        &(struct bucket_pairs){.queries = &(uint32_t){0},
                                               .keys = &(uint32_t){0},
                                               .num_queries = 1,
                                               .num_keys = 1,
                                               .query = pairs.queries.unit + i * pairs.queries.ld,
                                               .key = pairs.keys.unit + j * pairs.keys.ld,
                                               .value = pairs.keys.value + j * pairs.keys.ld,
                                               .dout = pairs.queries.value + i * pairs.queries.ld,
                                               .dim = D,
                                               .value_dim = D_V,
                                               .bias = biased ? bias + i : NULL,
                                               .dquery = want + i * D,
                                               .dkey = want + (N_Q + j) * D,
                                               .scale = 0.3f,
                                               .weight = weight,
                                               .hash_bits = BITS});
                }
    struct codes queries = codes_at(&hashing, query_codes, N_Q), keys = codes_at(&hashing, key_codes, N_K);
    pairs_add(kernels, pool, &pairs, &work, &queries, &keys);
    /* At most 3 * 90 partners, each of size a few units, with about ten roundings each. The angle costs
       more if vectors are close, but none is within 0.1 of another here. */
    double bound = 3 * N_Q * 10 * EPS * (weight == PAIR_CONSTANT ? 10 : 50);
    for (size_t i = 0; i < N_Q; i++)
        for (size_t c = 0; c < D; c++)
            check_near((double)pairs.queries.gradient[i * pairs.queries.ld + c], (double)want[i * D + c],
                       bound, "dquery");
    for (size_t j = 0; j < N_K; j++)
        for (size_t c = 0; c < D; c++)
            check_near((double)pairs.keys.gradient[j * pairs.keys.ld + c], (double)want[(N_Q + j) * D + c],
                       bound, "dkey");
    assert_true(near == (pairs.keys.sum != NULL));
    for (size_t j = 0; near && j < N_K; j++)
        for (size_t c = 0; c < D_V; c++)
            check_near((double)pairs.keys.sum[j * pairs.keys.ld + c], (double)want_sum[j * D_V + c], bound,
                       "sum of dX");
    free(block);
}

/* Gradients of `count` of the hashes, drawn from `key`; 0: all. Only the hashes of `bits` have codes that
   meet. */
static void gradients_of(size_t count, uint64_t key, enum pair_weight weight, unsigned bits, float *out)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS};
    uint16_t query_codes[N_Q * M], key_codes[N_K * M];
    struct random random = random_open(9);
    for (size_t i = 0; i < N_Q * M; i++)
        query_codes[i] = (uint16_t)(2 * random_below(&random, 14));
    for (size_t i = 0; i < N_K * M; i++)
        key_codes[i] = (uint16_t)(2 * random_below(&random, 14) + (bits >> i % M & 1 ? 0 : 1));
    struct pair_work work;
    struct pairs pairs = {.dim = D,
                          .value_dim = D_V,
                          .scale = 0.5f,
                          .weight = weight,
                          .hash_bits = BITS,
                          .gradient_hashes = count,
                          .hashes_key = key};
    struct arena arena = arena_on(NULL);
    void *block = NULL;
    for (int measured = 0; measured < 2; measured++) {
        pair_rows_init(&pairs.queries, &arena, N_Q, D, D_V, false, false);
        pair_rows_init(&pairs.keys, &arena, N_K, D, D_V, true, false);
        pair_work_init(&work, &arena, &hashing, N_Q, N_K, D, D_V, 1);
        if (measured == 0)
            block = aligned_alloc(64, arena.used);
        arena = arena_on(block);
    }
    fill_rows(&pairs.queries, N_Q, 1);
    fill_rows(&pairs.keys, N_K, 2);
    struct codes queries = codes_at(&hashing, query_codes, N_Q), keys = codes_at(&hashing, key_codes, N_K);
    pairs_add(kernels_named(NULL, &(const char *){0}), NULL, &pairs, &work, &queries, &keys);
    for (size_t i = 0; i < N_Q; i++)
        memcpy(out + i * D, pairs.queries.gradient + i * pairs.queries.ld, D * sizeof *out);
    for (size_t j = 0; j < N_K; j++)
        memcpy(out + (N_Q + j) * D, pairs.keys.gradient + j * pairs.keys.ld, D * sizeof *out);
    free(block);
}

static bool is_multiple(const float *x, const float *of, double factor)
{
    for (size_t i = 0; i < (N_Q + N_K) * D; i++)
        if (!(fabs((double)x[i] - factor * (double)of[i]) < 1e-4))
            return false;
    return true;
}

/* `count` of M hashes give M / count times their own gradient, and each such set is drawn as often. */
static void some_hashes_count_for_all(void **state)
{
    (void)state;
    static float of_set[1 << M][(N_Q + N_K) * D], drawn[(N_Q + N_K) * D];
    enum { DRAWS = 300 };
    for (int weight = PAIR_CONSTANT; weight <= PAIR_TANGENT; weight++)
        for (size_t count = 1; count <= M; count++) {
            int times[1 << M] = {0}, sets = 0;
            for (unsigned set = 0; set < 1 << M; set++)
                gradients_of(0, 0, (enum pair_weight)weight, set, of_set[set]);
            for (int draw = 0; draw < DRAWS; draw++) {
                gradients_of(count, (uint64_t)draw, (enum pair_weight)weight, (1 << M) - 1, drawn);
                for (unsigned set = 0; set < 1 << M; set++)
                    if (is_multiple(drawn, of_set[set], (double)M / (double)count)) {
                        assert_int_equal(__builtin_popcount(set), count);
                        times[set]++;
                    }
            }
            for (unsigned set = 0; set < 1 << M; set++)
                sets += (size_t)__builtin_popcount(set) == count;
            for (unsigned set = 0; set < 1 << M; set++) /* 5 deviations of a binomial around 100 */
                if ((size_t)__builtin_popcount(set) == count)
                    assert_true(abs(times[set] - DRAWS / sets) < 41);
        }
}

static size_t bytes_of(size_t n, bool of_keys, size_t dim)
{
    struct pair_rows rows;
    struct arena arena = arena_on(NULL);
    pair_rows_init(&rows, &arena, n, dim, dim, of_keys, pairs_are_near(n, n, dim, dim));
    return arena.used;
}

static void sizes_grow_with_rows(void **state)
{
    (void)state;
    assert_true(pairs_are_near(1000, 1000, 32, 32) && !pairs_are_near(4096, 4096, 64, 64));
    assert_false(pairs_are_near(SIZE_MAX / 2, 1, 64, 64));
    for (size_t dim = 1; dim < 300; dim = 3 * dim + 1)
        for (size_t n = 1; n < 100000; n += 1 + n / 4)
            for (int of_keys = 0; of_keys < 2; of_keys++)
                assert_true(bytes_of(n + 1 + n / 4, of_keys, dim) >= bytes_of(n, of_keys, dim));
}

static void equals_all_pairs(void **state)
{
    (void)state;
    static const uint32_t spread[] = {1, 3, 1 << BITS};
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < 3; s++)
            for (int form = 0; form < 48; form++)
                check_form(*kernels, form & 4 ? pool : NULL, (enum pair_weight)(form / 16), form & 1,
                           form & 2, form & 8, spread[s]);
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_all_pairs),
        cmocka_unit_test(some_hashes_count_for_all),
        cmocka_unit_test(sizes_grow_with_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
