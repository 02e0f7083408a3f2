/* The lists of keys against a comparison of all codes: few and many bits, more hashes than a block of
   columns, queries without a bucket, several threads. Bugs planted and caught: ranges of an earlier call
   kept; the lists of all hashes at one place; ranges by bucket instead of by query.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/key_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

static uint32_t code_at(const struct codes *codes, size_t row, size_t hash)
{
    const void *at = codes_row(codes, row);
    return codes->wide ? ((const uint32_t *)at)[hash] : ((const uint16_t *)at)[hash];
}

/* `values` different codes. */
static struct codes codes_of(const struct hashing *hashing, size_t n, uint64_t seed, uint32_t values)
{
    struct random random = random_open(seed);
    uint32_t *wide = malloc(n * hashing->num_hashes * sizeof *wide);
    uint16_t *narrow = malloc(n * hashing->num_hashes * sizeof *narrow);
    uint32_t spread = hashing->hash_bits > 8 ? (uint32_t)(((size_t)1 << hashing->hash_bits) / values) : 1;
    for (size_t i = 0; i < n * hashing->num_hashes; i++) {
        wide[i] = random_below(&random, values) * spread;
        narrow[i] = (uint16_t)wide[i];
    }
    free(hashing->hash_bits > 16 ? (void *)narrow : (void *)wide);
    return codes_at(hashing, hashing->hash_bits > 16 ? (void *)wide : (void *)narrow, n);
}

static void check_lists(size_t bits, size_t hashes, size_t n_q, size_t n_k, uint32_t values, int threads)
{
    struct hashing hashing = {.num_hashes = hashes, .hash_bits = bits};
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
    struct key_lists lists;
    struct arena arena = arena_on(NULL);
    key_lists_lay_out(&lists, &arena, &hashing, n_q, n_k);
    float *block = guard_floats(arena.used / sizeof(float) + 1);
    arena = arena_on(block);
    key_lists_lay_out(&lists, &arena, &hashing, n_q, n_k);
    for (uint64_t seed = 0; seed < 4; seed += 2) { /* the second call in the memory of the first */
        struct codes queries = codes_of(&hashing, n_q, seed, values),
                     keys = codes_of(&hashing, n_k, seed + 1, values);
        key_lists_find(&lists, pool, &queries, &keys);
        for (size_t i = 0; i < n_q; i++)
            for (size_t h = 0; h < hashes; h++) {
                size_t count, at = 0;
                const uint32_t *list = key_list(&lists, i, h, &count);
                for (size_t j = 0; j < n_k; j++)
                    if (code_at(&keys, j, h) == code_at(&queries, i, h)) {
                        assert_true(at < count);
                        assert_int_equal(list[at++], j);
                    }
                assert_int_equal(at, count);
            }
        free((void *)queries.data);
        free((void *)keys.data);
    }
    guard_free(block, arena.used / sizeof(float) + 1);
    pool_free(&host, pool);
}

static void lists_are_the_keys_with_the_code(void **state)
{
    (void)state;
    for (int threads = 1; threads < 4; threads += 2) {
        check_lists(1, 1, 1, 1, 1, threads);
        check_lists(3, 5, 70, 130, 8, threads);
        check_lists(8, 40, 200, 90, 200, threads);
        check_lists(14, 3, 64, 64, 30, threads);
        check_lists(20, 33, 33, 100, 50, threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_the_keys_with_the_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
