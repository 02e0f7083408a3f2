/* Buckets and their parts against a comparison of all codes. Bugs planted and caught: rows kept whose code
   no other row has; row numbers written for the marks of one side only, or left over from the previous
   hash; a counter not cleared; with many bits, the result read from the wrong array, the marks of another
   code, and a run cut at its end; a part that begins after its first bucket; buckets left in order of code,
   and rows that stay where they are while the list is ordered.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/buckets.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { M = 3 };

static uint32_t code_at(const struct codes *codes, size_t row, size_t hash)
{
    size_t at = row * codes->num_hashes + hash;
    return codes->wide ? ((const uint32_t *)codes->data)[at] : ((const uint16_t *)codes->data)[at];
}

static void *random_codes(size_t n, size_t hash_bits, bool few, uint64_t key)
{
    struct random random = random_open(key);
    uint32_t *wide = malloc((n + 1) * M * sizeof *wide);
    uint16_t *narrow = (void *)wide;
    for (size_t i = 0; i < n * M; i++) {
        uint32_t code = random_below(&random, (uint32_t)1 << hash_bits);
        if (few) /* a few codes over the whole range, both ends included */
            code = code % 4 == 0 ? ((uint32_t)1 << hash_bits) - 1 : code % 4 == 1 ? 0 : code / 1024 * 1024;
        if (hash_bits > 16)
            wide[i] = code;
        else
            narrow[i] = (uint16_t)code;
    }
    return wide;
}

/* Sizes from 16 on are not told apart. */
static bool comes_before(const struct bucket *a, const struct bucket *b)
{
    uint32_t keys_a = a->num_keys < 16 ? a->num_keys : 16, keys_b = b->num_keys < 16 ? b->num_keys : 16;
    uint32_t queries_a = a->num_queries < 16 ? a->num_queries : 16,
             queries_b = b->num_queries < 16 ? b->num_queries : 16;
    return keys_a > keys_b || (keys_a == keys_b && queries_a >= queries_b);
}

/* The rows of a list between these positions ascend and have one code. */
static void check_rows(const uint32_t *rows, size_t count, const struct codes *codes, size_t hash)
{
    assert_true(count > 0);
    for (size_t i = 1; i < count; i++) {
        assert_true(rows[i] > rows[i - 1]);
        assert_int_equal(code_at(codes, rows[i], hash), code_at(codes, rows[0], hash));
    }
}

/* The parts are the list, one after another. */
static void check_parts(const struct buckets *buckets)
{
    for (size_t parts = 1; parts < 9; parts += 3) {
        size_t first, end, last = 0;
        for (size_t part = 0; part < parts; part++) {
            buckets_part(buckets, part, parts, &first, &end);
            assert_int_equal(first, last);
            assert_true(end >= first);
            last = end;
        }
        assert_int_equal(last, buckets->count);
    }
}

static void check_size(size_t n_q, size_t n_k, size_t hash_bits, bool few)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = hash_bits};
    void *query_data = random_codes(n_q, hash_bits, few, n_q + 1),
         *key_data = random_codes(n_k, hash_bits, few, n_k + 77);
    struct codes queries = codes_at(&hashing, query_data, n_q), keys = codes_at(&hashing, key_data, n_k);
    struct code_columns query_columns, key_columns;
    struct buckets buckets;
    struct arena arena = arena_on(NULL);
    void *block = NULL;
    for (int measured = 0; measured < 2; measured++) {
        code_columns_init(&query_columns, &arena, &hashing, n_q);
        code_columns_init(&key_columns, &arena, &hashing, n_k);
        buckets_init(&buckets, &arena, &hashing, n_q, n_k);
        if (measured == 0) {
            block = aligned_alloc(64, arena.used);
            memset(block, 0xA5, arena.used);
        }
        arena = arena_on(block);
    }
    code_columns_take(&query_columns, &queries, 0);
    code_columns_take(&key_columns, &keys, 0);
    for (size_t hash = 0; hash < M; hash++) {
        buckets_find(&buckets, &query_columns, &key_columns, hash);
        size_t pairs = 0, want = 0, query_rows = 0, key_rows = 0;
        for (size_t i = 0; i < n_q; i++)
            for (size_t j = 0; j < n_k; j++)
                want += code_at(&queries, i, hash) == code_at(&keys, j, hash);
        for (const struct bucket *b = buckets.list; b < buckets.list + buckets.count; b++) {
            assert_true(b == buckets.list || buckets.count < 256 || comes_before(b - 1, b));
            assert_int_equal(b->first_query, query_rows); /* one after another: they cut the parts */
            assert_int_equal(b->first_key, key_rows);
            query_rows += b->num_queries;
            key_rows += b->num_keys;
            check_rows(buckets.queries + b->first_query, b->num_queries, &queries, hash);
            check_rows(buckets.keys + b->first_key, b->num_keys, &keys, hash);
            assert_int_equal(code_at(&queries, buckets.queries[b->first_query], hash),
                             code_at(&keys, buckets.keys[b->first_key], hash));
            pairs += (size_t)b->num_queries * b->num_keys;
        }
        assert_int_equal(pairs, want);
        assert_true(query_rows <= buckets.num_queries && buckets.num_queries <= n_q);
        assert_true(key_rows <= buckets.num_keys && buckets.num_keys <= n_k);
        check_parts(&buckets);
    }
    free(block), free(query_data), free(key_data);
}

static void sizes(void **state)
{
    (void)state;
    static const size_t n[] = {1, 2, 63, 64, 65, 300};
    for (size_t bits = 1; bits <= 24; bits++)
        for (size_t a = 0; a < sizeof n / sizeof *n; a++)
            for (int few = 0; few < 2; few++)
                check_size(n[a], n[(a * 5 + bits) % (sizeof n / sizeof *n)], bits, few);
    check_size(5000, 300, 13, false);
    check_size(300, 5000, 7, false);
    check_size(3000, 2500, 9, false); /* enough buckets to be ordered, by both ways of finding them */
    check_size(3000, 2500, 13, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
