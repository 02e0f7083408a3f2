/* Lists against comparing all codes: who is on them, in which order, what is joined, and where long ones are
   cut; narrow and wide codes, on one thread and on three; sizes never shrink with more rows.
   Bugs planted and caught: chains that fall; the second or the third row of a code not joined; a row 0 that
   has a next; a piece handed over twice; chains of the other side kept; heads not cleared; wide codes read as
   narrow; the density of one side; memory that falls where lists are no longer used.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/meeting_lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 17000, HASHES = 5 };

/* All lists, and how many pieces each came in. */
struct heard {
    uint32_t *entries[MOST];
    size_t counts[MOST], pieces[MOST];
};

static void hear(void *argument, size_t row, const uint32_t *list, size_t count, int worker)
{
    (void)worker;
    struct heard *heard = argument;
    assert_true(count > 0);
    assert_false(list[count - 1] & LIST_JOINED);
    heard->entries[row] = realloc(heard->entries[row], (heard->counts[row] + count) * sizeof *list);
    memcpy(heard->entries[row] + heard->counts[row], list, count * sizeof *list);
    heard->counts[row] += count;
    heard->pieces[row]++;
}

static uint32_t *draw(size_t n, uint32_t spread, uint64_t key)
{
    uint32_t *codes = malloc(n * HASHES * sizeof *codes);
    struct random random = random_open(key);
    for (size_t i = 0; i < n * HASHES; i++)
        codes[i] = random_below(&random, spread);
    return codes;
}

static void *narrowed(const uint32_t *codes, size_t n)
{
    uint16_t *narrow = malloc(n * HASHES * sizeof *narrow);
    for (size_t i = 0; i < n * HASHES; i++)
        narrow[i] = (uint16_t)codes[i];
    return narrow;
}

static void check_lists(struct pool *pool, size_t n_q, size_t n_k, size_t hash_bits, uint32_t spread)
{
    const struct hashing hashing = {.num_hashes = HASHES, .hash_bits = hash_bits};
    uint32_t *query_codes = draw(n_q, spread, 1), *key_codes = draw(n_k, spread, 2);
    bool wide = hash_bits > 16;
    void *query_data = wide ? query_codes : narrowed(query_codes, n_q),
         *key_data = wide ? key_codes : narrowed(key_codes, n_k);
    struct codes queries = codes_at(&hashing, query_data, n_q), keys = codes_at(&hashing, key_data, n_k);
    struct meeting_lists lists;
    struct arena arena = arena_on(NULL);
    meeting_lists_lay_out(&lists, &arena, &hashing, n_q, n_k, (size_t)pool_threads(pool));
    void *block = aligned_alloc(64, arena.used);
    memset(block, 0xA5, arena.used);
    arena = arena_on(block);
    meeting_lists_lay_out(&lists, &arena, &hashing, n_q, n_k, (size_t)pool_threads(pool));

    double met = 0;
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_k; j++)
            met += query_codes[i * HASHES] == key_codes[j * HASHES];
    check_near(meeting_lists_density(&lists, &queries, &keys), 2 * met / (double)(n_q + n_k), 1e-12,
               "density");
    struct heard *heard = calloc(1, sizeof *heard);
    for (int side = 0; side < 2; side++) { /* chains of the keys, then of the queries */
        const uint32_t *own = side == 0 ? query_codes : key_codes,
                       *other = side == 0 ? key_codes : query_codes;
        size_t n = side == 0 ? n_q : n_k, others = side == 0 ? n_k : n_q;
        meeting_lists_make(&lists, pool, side == 0 ? &keys : &queries);
        meeting_lists_make(&lists, pool, side == 0 ? &keys : &queries); /* are there already */
        meeting_lists_walk(&lists, pool, side == 0 ? &queries : &keys, hear, heard);
        for (size_t i = 0; i < n; i++) {
            size_t at = 0;
            for (size_t h = 0; h < HASHES; h++) {
                size_t first = at;
                for (size_t j = 0; j < others; j++)
                    if (own[i * HASHES + h] == other[j * HASHES + h]) {
                        assert_true(at < heard->counts[i]);
                        assert_int_equal(heard->entries[i][at] & ~LIST_JOINED, j);
                        at++;
                    }
                for (size_t k = first; k + 1 < at; k++)
                    assert_true(heard->entries[i][k] & LIST_JOINED);
                if (at > first)
                    assert_false(heard->entries[i][at - 1] & LIST_JOINED);
            }
            assert_int_equal(at, heard->counts[i]);
            assert_true(heard->pieces[i] <= 1 + at / 1024);
            free(heard->entries[i]);
        }
        memset(heard, 0, sizeof *heard);
    }
    if (!wide)
        free(query_data), free(key_data);
    free(heard), free(block), free(query_codes), free(key_codes);
}

static void lists_are_what_codes_say(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (int threads = 0; threads < 2; threads++) {
        check_lists(threads ? pool : NULL, 1, 1, 1, 1);
        check_lists(threads ? pool : NULL, 1, 7, 3, 2);
        check_lists(threads ? pool : NULL, 90, 200, 9, 512);
        check_lists(threads ? pool : NULL, 200, 90, 9, 30);
        check_lists(threads ? pool : NULL, 700, 1300, 12, 1); /* longer than a piece, in every hash */
        check_lists(threads ? pool : NULL, 1300, 500, 11, 4);
        check_lists(threads ? pool : NULL, 17000, 30, 17, 1000); /* wide codes */
    }
    pool_free(&host, pool);
}

static size_t size_of(size_t n_q, size_t n_k, size_t hash_bits, double *density)
{
    const struct hashing hashing = {.num_hashes = 7, .hash_bits = hash_bits};
    struct meeting_lists lists;
    struct arena arena = arena_on(NULL);
    meeting_lists_lay_out(&lists, &arena, &hashing, n_q, n_k, 2);
    *density = lists.density;
    return arena.used;
}

static void sizes_never_fall_and_say_who_has_none(void **state)
{
    (void)state;
    double density;
    for (size_t bits = 1; bits <= 24; bits++) {
        size_t last = 0;
        for (size_t n = 1; n < 100000; n += 1 + n / 3) {
            size_t size = size_of(n, n, bits, &density);
            assert_true(size >= last);
            assert_true(size_of(n, 2 * n, bits, &density) >= size &&
                        size_of(2 * n, n, bits, &density) >= size);
            last = size;
        }
    }
    size_of(4096, 4096, 9, &density);
    assert_true(density == INFINITY); /* eight rows a code */
    size_of(100, 100, 24, &density);
    assert_true(density == INFINITY); /* far more codes than rows */
    size_of(1000, 1000, 11, &density);
    assert_true(density < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_what_codes_say),
        cmocka_unit_test(sizes_never_fall_and_say_who_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
