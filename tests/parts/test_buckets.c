/* Sorting and walking buckets, against counting by hand.
   Bugs tried and caught: an unstable pass, the odd number of passes ending in the wrong array, a run cut at
   its end, the walk stopping when one side is ahead, a shared walk that begins inside a bucket.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/buckets.h"

#include <stdlib.h>

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
        if (few) /* a handful of codes over the whole range, both ends among them */
            code = code % 4 == 0 ? ((uint32_t)1 << hash_bits) - 1 : code % 4 == 1 ? 0 : code / 1024 * 1024;
        if (hash_bits > 16)
            wide[i] = code;
        else
            narrow[i] = (uint16_t)code;
    }
    return wide;
}

static void check_sorted(const struct sorted *sorted, const struct codes *codes, size_t hash)
{
    assert_int_equal(sorted->n, codes->n);
    for (size_t i = 0; i < sorted->n; i++) {
        assert_int_equal(sorted->codes[i], code_at(codes, sorted->rows[i], hash));
        if (i > 0)
            assert_true(sorted->codes[i] > sorted->codes[i - 1] ||
                        (sorted->codes[i] == sorted->codes[i - 1] && sorted->rows[i] > sorted->rows[i - 1]));
    }
}

/* Walks from any places meet, in order, the buckets of the one walk. */
static void check_shared_out(const struct buckets *buckets)
{
    for (size_t parts = 1; parts < 9; parts += 3) {
        struct bucket whole = {0};
        for (size_t part = 0; part < parts; part++) {
            size_t first = buckets->queries.n * part / parts, end = buckets->queries.n * (part + 1) / parts;
            struct bucket b = buckets_before(buckets, first);
            while (buckets_next(buckets, &b) && b.first_query < end) {
                assert_true(b.first_query >= first);
                assert_true(buckets_next(buckets, &whole));
                assert_memory_equal(&b, &whole, sizeof b);
            }
        }
        assert_false(buckets_next(buckets, &whole));
    }
}

static void check_size(size_t n_q, size_t n_k, size_t hash_bits, bool few)
{
    const struct hashing hashing = {.num_hashes = M, .hash_bits = hash_bits};
    void *query_data = random_codes(n_q, hash_bits, few, n_q + 1),
         *key_data = random_codes(n_k, hash_bits, few, n_k + 77);
    struct codes queries = codes_at(&hashing, query_data, n_q), keys = codes_at(&hashing, key_data, n_k);
    struct buckets buckets;
    struct arena measure = arena_on(NULL);
    buckets_lay_out(&buckets, &measure, n_q, n_k);
    void *block = aligned_alloc(64, measure.used);
    struct arena arena = arena_on(block);
    buckets_lay_out(&buckets, &arena, n_q, n_k);
    for (size_t hash = 0; hash < M; hash++) {
        buckets_sort(&buckets, &queries, &keys, hash, hash_bits);
        check_sorted(&buckets.queries, &queries, hash);
        check_sorted(&buckets.keys, &keys, hash);
        size_t pairs = 0, want = 0;
        for (size_t i = 0; i < n_q; i++)
            for (size_t j = 0; j < n_k; j++)
                want += code_at(&queries, i, hash) == code_at(&keys, j, hash);
        for (struct bucket b = {0}; buckets_next(&buckets, &b);) {
            pairs += b.num_queries * b.num_keys;
            for (size_t i = 0; i < b.num_queries; i++)
                for (size_t j = 0; j < b.num_keys; j++)
                    assert_int_equal(buckets.queries.codes[b.first_query + i],
                                     buckets.keys.codes[b.first_key + j]);
        }
        assert_int_equal(pairs, want);
        check_shared_out(&buckets);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
