/* All pairs that meet, over hashes, against every pair by the slot of table "ref", one at a time; codes that
   crowd and codes that spread, so that all ways of a bucket and of a head are taken.
   On one thread and on three.
   Bugs tried and caught: the last bucket of a hash dropped, the last hash dropped, a piece that
   takes the first bucket of the next, the next hash sorted over the present one, a scale 1 % off, the
   crowded way taken for a tangent, the count for its inverse where pairs count once, 1 for the count where a
   head is taken whole; lists: the bias of a key's own number, dV from its own rows, the sum of dV not
   cleared, lists taken where causal, or for any weight. SPDX-License-Identifier: Apache-2.0 */
#include "parts/pairs.h"

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
                       bool once, bool listed, uint32_t spread)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS};
    uint16_t query_codes[N_Q * M], key_codes[N_K * M];
    const struct hashing roomy = {.num_hashes = M, .hash_bits = BITS + 2}; /* lists for these rows too */
    float bias[N_Q], want[(N_Q + N_K) * D] = {0}, dvalue[N_K * (D_V + 1)] = {0}, want_value[N_K * D_V] = {0};
    struct meeting_lists lists;
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
                          .hash_bits = BITS,
                          .lists = &lists};
    struct arena arena = arena_on(NULL);
    void *block = NULL;
    for (int measured = 0; measured < 2; measured++) {
        pair_rows_lay_out(&pairs.queries, &arena, N_Q, D, D_V);
        pair_rows_lay_out(&pairs.keys, &arena, N_K, D, D_V);
        pair_work_lay_out(&work, &arena, N_Q, N_K, D, D_V, M, (size_t)pool_threads(pool));
        meeting_lists_lay_out(&lists, &arena, &roomy, N_Q, N_K, (size_t)pool_threads(pool));
        if (measured == 0)
            block = aligned_alloc(64, arena.used);
        arena = arena_on(block);
    }
    fill_rows(&pairs.queries, N_Q, 1);
    fill_rows(&pairs.keys, N_K, 2);
    const struct kernels *plain = kernels_named("ref", &(const char *){0}); /* asks the processor: slow */
    for (uint32_t h = 0; h < M; h++)
        for (uint32_t i = 0; i < N_Q; i++)
            for (uint32_t j = 0; j < N_K; j++)
                if (query_codes[i * M + h] == key_codes[j * M + h] &&
                    !(once && share(query_codes + i * M, key_codes + j * M, h))) {
                    for (size_t c = 0; c < D_V; c++)
                        want_value[j * D_V + c] += 0.25f * pairs.queries.value[i * pairs.queries.ld + c];
                    plain->bucket_pairs(
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
    if (listed)
        pairs_list(kernels, pool, &pairs, &work, &queries, &keys, dvalue, D_V + 1, 0.25f);
    else
        pairs_add(kernels, pool, &pairs, &work, &queries, &keys);
    /* At most 3 * 90 partners, each a few units large, some ten roundings each (the angle is worth more where
       vectors are near: none is within 0.1 of another here). */
    double bound = 3 * N_Q * 10 * EPS * (weight == PAIR_CONSTANT ? 10 : 50);
    for (size_t i = 0; i < N_Q; i++)
        for (size_t c = 0; c < D; c++)
            check_near((double)pairs.queries.gradient[i * pairs.queries.ld + c], (double)want[i * D + c],
                       bound, "dquery");
    for (size_t j = 0; j < N_K; j++)
        for (size_t c = 0; c < D; c++)
            check_near((double)pairs.keys.gradient[j * pairs.keys.ld + c], (double)want[(N_Q + j) * D + c],
                       bound, "dkey");
    for (size_t j = 0; listed && j < N_K; j++)
        for (size_t c = 0; c < D_V; c++)
            check_near((double)dvalue[j * (D_V + 1) + c], (double)want_value[j * D_V + c], bound, "dvalue");
    free(block);
}

/* When lists are taken: few meetings, constant weights, no limit of what is seen. */
static void few_is_decided_by_the_first_hash(void **state)
{
    (void)state;
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS + 2};
    uint16_t codes[N_Q * M] = {0};
    struct codes queries = codes_at(&hashing, codes, N_Q), keys = codes_at(&hashing, codes, N_K);
    size_t visible[N_Q] = {0};
    for (size_t spread = 1; spread <= N_Q; spread *= 2)
        for (int weight = PAIR_CONSTANT; weight <= PAIR_SHRUNK; weight++)
            for (int causal = 0; causal < 2; causal++) {
                struct meeting_lists lists;
                struct arena arena = arena_on(NULL);
                meeting_lists_lay_out(&lists, &arena, &hashing, N_Q, N_K, 1);
                void *block = aligned_alloc(64, arena.used);
                arena = arena_on(block);
                meeting_lists_lay_out(&lists, &arena, &hashing, N_Q, N_K, 1);
                for (size_t i = 0; i < N_Q * M; i++) /* the other hashes crowd */
                    codes[i] = (uint16_t)(i % M == 0 ? i / M % spread : 0);
                struct pairs pairs = {
                    .weight = (enum pair_weight)weight, .lists = &lists, .visible = causal ? visible : NULL};
                /* Each key meets about N_Q / spread queries. */
                assert_int_equal(pairs_are_few(&pairs, &queries, &keys),
                                 weight == PAIR_CONSTANT && !causal && spread == 64);
                free(block);
            }
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
            for (int form = 0; form < 24; form++)
                check_form(*kernels, form & 4 ? pool : NULL, (enum pair_weight)(form / 8), form & 1, form & 2,
                           false, spread[s]);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < 3; s++)
            for (int form = 0; form < 4; form++)
                check_form(*kernels, form & 2 ? pool : NULL, PAIR_CONSTANT, form & 1, false, true, spread[s]);
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_all_pairs),
        cmocka_unit_test(few_is_decided_by_the_first_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
