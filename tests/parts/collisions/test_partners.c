/* Rows with partners against a comparison of all codes. Bugs planted and caught: numbers left over from the
   previous hash, a number given to each row of a code, a query kept whose code no key has, a key kept whose
   code no query has, the numbers of the keys written for the queries.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/partners.h"

#include <stdlib.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 300 };

/* Rows of `side` are those whose code `others` have, in ascending order; number_of gets each code's
   number. */
static void check_side(const struct partner_rows *side, const uint16_t *codes, size_t n,
                       const uint16_t *others, size_t n_others, int *number_of)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        bool meets = false;
        for (size_t j = 0; j < n_others; j++)
            meets |= codes[i] == others[j];
        if (!meets)
            continue;
        assert_true(found < side->count);
        assert_int_equal(side->rows[found], i);
        if (number_of[codes[i]] < 0)
            number_of[codes[i]] = side->numbers[found];
        assert_int_equal(side->numbers[found], number_of[codes[i]]);
        found++;
    }
    assert_int_equal(side->count, found);
}

static void check_found(struct partners *partners, size_t bits, const uint16_t *queries, size_t n_q,
                        const uint16_t *keys, size_t n_k)
{
    int number_of[1 << PARTNER_BITS], codes = 1 << bits;
    bool used[1 << PARTNER_BITS] = {false};
    size_t shared = 0;
    for (int c = 0; c < codes; c++)
        number_of[c] = -1;
    partners_find(partners, bits, queries, n_q, keys, n_k);
    check_side(&partners->keys, keys, n_k, queries, n_q, number_of);
    check_side(&partners->queries, queries, n_q, keys, n_k, number_of);
    for (int c = 0; c < codes; c++)
        if (number_of[c] >= 0) { /* each number from 0 on occurs once */
            assert_true((size_t)number_of[c] < partners->num_codes && !used[number_of[c]]);
            used[number_of[c]] = true;
            shared++;
        }
    assert_int_equal(partners->num_codes, shared);
}

static void finds_partners(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{1, 1}, {1, MOST}, {MOST, 1}, {40, 60}, {MOST, MOST}};
    uint16_t queries[MOST], keys[MOST];
    struct random random = random_open(1);
    for (size_t bits = 1; bits <= PARTNER_BITS; bits++) {
        struct partners partners;
        struct arena arena = arena_on(NULL);
        partners_init(&partners, &arena, bits, MOST, MOST);
        void *block = aligned_alloc(64, arena.used);
        arena = arena_on(block);
        partners_init(&partners, &arena, bits, MOST, MOST);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int crowded = 0; crowded < 2; crowded++) {
                uint32_t range = crowded ? 2 : (uint32_t)1 << bits;
                for (size_t i = 0; i < MOST; i++) {
                    queries[i] = (uint16_t)random_below(&random, range);
                    keys[i] = (uint16_t)(((uint32_t)1 << bits) - 1 - random_below(&random, range));
                }
                check_found(&partners, bits, queries, sizes[s][0], keys, sizes[s][1]);
            }
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_partners)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
