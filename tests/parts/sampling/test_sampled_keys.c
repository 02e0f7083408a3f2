/* The lists of keys against a comparison of all codes: few and many bits, more hashes than a block of
   columns, queries without a bucket, several threads. Unions and draws from lists that are written by hand.
   Bugs planted and caught: ranges of an earlier call kept; the lists of all hashes at one place; ranges by
   bucket instead of by query; a key in two lists counted twice; keys beyond the visible ones; the same word
   for four hashes; a draw that never takes the last key; the whole bucket counted where only a part is
   visible.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/sampled_keys.h"

#include <math.h>
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
    key_lists_init(&lists, &arena, &hashing, n_q, n_k);
    float *block = guard_floats(arena.used / sizeof(float) + 1);
    arena = arena_on(block);
    key_lists_init(&lists, &arena, &hashing, n_q, n_k);
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

/* ---- one query ----------------------------------------------------------------------------------------- */

enum { HASHES = 6, KEYS = 10 };

/* One query. Hash 0: keys 1 4 7; hash 1: 0 1; hash 2: none; hash 3: 9; hash 4: all; hash 5: 4. */
static uint32_t keys[HASHES * KEYS] = {1, 4, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                                       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                       0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static struct key_range ranges[HASHES] = {{0, 3}, {0, 2}, {0, 0}, {0, 1}, {0, 10}, {0, 1}};

static struct key_lists lists_of(size_t hashes)
{
    return (struct key_lists){
        .num_hashes = hashes, .num_queries = 1, .num_keys = KEYS, .keys = keys, .ranges = ranges};
}

static void a_union_has_each_visible_key_once(void **state)
{
    (void)state;
    uint32_t marks[KEYS] = {0}, found[KEYS + 1];
    struct key_lists four = lists_of(4), all = lists_of(HASHES);
    static const uint32_t want[] = {1, 4, 7, 0, 9}, early[] = {1, 4, 0},
                          whole[] = {1, 4, 7, 0, 9, 2, 3, 5, 6, 8};
    assert_int_equal(sampled_union(&four, 0, KEYS, marks, 1, found), 5);
    assert_memory_equal(found, want, sizeof want);
    assert_int_equal(sampled_union(&four, 0, 5, marks, 2, found), 3);
    assert_memory_equal(found, early, sizeof early);
    assert_int_equal(sampled_union(&all, 0, KEYS, marks, 3, found), KEYS);
    assert_memory_equal(found, whole, sizeof whole);
    assert_int_equal(sampled_union(&all, 0, 0, marks, 4, found), 0);
}

static void draws_are_uniform_among_visible_keys(void **state)
{
    (void)state;
    enum { SEEDS = 6000 };
    struct key_lists lists = lists_of(HASHES);
    for (size_t seen = KEYS; seen >= 5; seen -= 5) {
        size_t count[HASHES][KEYS] = {{0}}, both = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            uint32_t found[HASHES];
            float weight[HASHES];
            size_t taken = sampled_draws(&lists, 0, seen, seed, found, weight), at = 0;
            assert_int_equal(taken, seen == KEYS ? 5 : 4);
            for (size_t h = 0; h < HASHES; h++) {
                size_t visible = 0;
                for (size_t i = 0; i < ranges[h].count; i++)
                    visible += keys[h * KEYS + i] < seen;
                if (visible == 0)
                    continue;
                assert_true(found[at] < seen);
                check_near((double)weight[at], (double)visible / HASHES, 1e-6, "weight of a bucket");
                count[h][found[at++]]++;
            }
            both += found[0] == 1 && found[1] == 1;
        }
        for (size_t h = 0; h < HASHES; h++) {
            double visible = 0;
            for (size_t i = 0; i < ranges[h].count; i++)
                visible += keys[h * KEYS + i] < seen;
            for (size_t i = 0; i < ranges[h].count && keys[h * KEYS + i] < seen; i++) {
                double p = 1 / visible, spread = sqrt(SEEDS * p * (1 - p));
                check_near((double)count[h][keys[h * KEYS + i]], SEEDS * p, 5 * spread, "draws of a key");
            }
        }
        /* Hashes draw independently: key 1 from both of the first two. */
        double p = seen == KEYS ? 1.0 / 6 : 1.0 / 4;
        check_near((double)both, SEEDS * p, 5 * sqrt(SEEDS * p * (1 - p)), "both draws");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_the_keys_with_the_code),
        cmocka_unit_test(a_union_has_each_visible_key_once),
        cmocka_unit_test(draws_are_uniform_among_visible_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
