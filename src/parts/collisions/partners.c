/* Queries mark their codes. Keys with a marked code are kept, and the first of each code gives it the next
   number. Then queries with a numbered code are kept. No branch depends on a code: a third of the rows or
   more have no partner where this is used, so branches would mispredict. Cost: about 2 ns per row.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/partners.h"

#include <string.h>

enum { NO_QUERY, MARKED, FIRST_NUMBER }; /* values of partners.numbers */

static void lay_out_rows(struct partner_rows *side, struct arena *arena, size_t n)
{
    side->rows = arena_take(arena, n, sizeof *side->rows);
    side->numbers = arena_take(arena, n, sizeof *side->numbers);
}

void partners_init(struct partners *partners, struct arena *arena, size_t hash_bits, size_t num_queries,
                   size_t num_keys)
{
    partners->numbers = arena_take(arena, (size_t)1 << hash_bits, sizeof *partners->numbers);
    lay_out_rows(&partners->queries, arena, num_queries);
    lay_out_rows(&partners->keys, arena, num_keys);
}

void partners_find(struct partners *partners, size_t hash_bits, const uint16_t *query_codes,
                   size_t num_queries, const uint16_t *key_codes, size_t num_keys)
{
    uint16_t *numbers = partners->numbers, next = FIRST_NUMBER;
    struct partner_rows keys = partners->keys, queries = partners->queries;
    memset(numbers, 0, sizeof *numbers << hash_bits);
    for (size_t i = 0; i < num_queries; i++)
        numbers[query_codes[i]] = MARKED;
    keys.count = 0;
    for (size_t j = 0; j < num_keys; j++) {
        uint16_t number = numbers[key_codes[j]], first = number == MARKED;
        number = first ? next : number;
        numbers[key_codes[j]] = number;
        keys.rows[keys.count] = (uint32_t)j;
        keys.numbers[keys.count] = (uint16_t)(number - FIRST_NUMBER);
        keys.count += number != NO_QUERY;
        next = (uint16_t)(next + first);
    }
    queries.count = 0;
    for (size_t i = 0; i < num_queries; i++) {
        uint16_t number = numbers[query_codes[i]];
        queries.rows[queries.count] = (uint32_t)i;
        queries.numbers[queries.count] = (uint16_t)(number - FIRST_NUMBER);
        queries.count += number >= FIRST_NUMBER;
    }
    partners->num_codes = (size_t)(next - FIRST_NUMBER);
    partners->keys = keys;
    partners->queries = queries;
}
