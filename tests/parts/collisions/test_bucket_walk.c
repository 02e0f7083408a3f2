/* A walk visits every colliding pair of each hash of its list once, for any number of threads and parts, and
   with more hashes than one pass takes. Bugs planted and caught: the last hash left out; the next hash's
   buckets written over the current ones; code columns of the previous hashes; the buckets of another hash
   passed for the first; the index in the list passed for the hash; columns of the hashes of another list.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/bucket_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N_Q = 90, N_K = 70, M = CODE_COLUMNS + 5, BITS = 5 };

/* How often each pair was visited in each hash. Parts share no row, so no two threads write to one
   element. */
struct seen {
    unsigned char times[M][N_Q][N_K];
};

static void visit(void *argument, const struct buckets *buckets, size_t hash, size_t first, size_t end,
                  int worker)
{
    (void)worker;
    struct seen *seen = argument;
    for (const struct bucket *b = buckets->list + first; b < buckets->list + end; b++)
        for (size_t i = 0; i < b->num_queries; i++)
            for (size_t j = 0; j < b->num_keys; j++)
                seen->times[hash][buckets->queries[b->first_query + i]][buckets->keys[b->first_key + j]]++;
}

static bool is_listed(const struct hash_list *list, size_t hash)
{
    for (size_t i = 0; i < list->count && list->hashes != NULL; i++)
        if (list->hashes[i] == hash)
            return true;
    return list->hashes == NULL;
}

static void visits_all_that_meet(void **state)
{
    (void)state;
    static const uint32_t some[] = {1, 2, 7, CODE_COLUMNS + 1, CODE_COLUMNS + 3}, late[] = {CODE_COLUMNS + 2},
                          early[] = {3};
    static const struct hash_list lists[] = {{NULL, M}, {some, 5}, {late, 1}, {early, 1}};
    const struct hashing hashing = {.num_hashes = M, .hash_bits = BITS};
    static uint16_t query_codes[N_Q * M], key_codes[N_K * M];
    struct random random = random_open(1);
    for (size_t i = 0; i < N_Q * M; i++)
        query_codes[i] = (uint16_t)random_below(&random, 1 << BITS);
    for (size_t i = 0; i < N_K * M; i++)
        key_codes[i] = (uint16_t)random_below(&random, 1 << BITS);
    struct codes queries = codes_at(&hashing, query_codes, N_Q), keys = codes_at(&hashing, key_codes, N_K);
    struct host host;
    host_init(&host);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        struct bucket_walk walk;
        struct arena arena = arena_on(NULL);
        bucket_walk_init(&walk, &arena, &hashing, N_Q, N_K);
        void *block = aligned_alloc(64, arena.used);
        memset(block, 0xA5, arena.used);
        arena = arena_on(block);
        bucket_walk_init(&walk, &arena, &hashing, N_Q, N_K);
        struct seen *seen = calloc(1, sizeof *seen);
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
            const struct hash_list *list = &lists[l];
            size_t first = list->hashes == NULL ? 0 : list->hashes[0];
            const struct buckets *buckets = bucket_walk_first(&walk, &queries, &keys, list);
            assert_true(buckets->count > 1 && buckets->count <= 1 << BITS);
            memset(seen, 0, sizeof *seen);
            visit(seen, buckets, first, 0, buckets->count, 0);
            for (size_t i = 0; i < N_Q; i++)
                for (size_t j = 0; j < N_K; j++)
                    assert_int_equal(seen->times[first][i][j],
                                     query_codes[i * M + first] == key_codes[j * M + first]);
            memset(seen, 0, sizeof *seen);
            bucket_walk_run(&walk, pool, bucket_walk_parts(pool), &queries, &keys, list, visit, seen);
            for (size_t h = 0; h < M; h++)
                for (size_t i = 0; i < N_Q; i++)
                    for (size_t j = 0; j < N_K; j++)
                        assert_int_equal(seen->times[h][i][j],
                                         is_listed(list, h) &&
                                             query_codes[i * M + h] == key_codes[j * M + h]);
        }
        free(seen), free(block);
        pool_free(&host, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(visits_all_that_meet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
