/* Chains as in a hash table: a row becomes the head of its code, and the head before it the next. Rows enter
   from the last to the first, so chains rise. Entry 0 is no row and its own next, so that the first two rows
   of a code are listed without asking whether they are there: which codes are empty is not to be foreseen,
   and half of them are. What remains is about 4 nanoseconds for each row and hash, most of the cost of a
   list. SPDX-License-Identifier: Apache-2.0 */
#include "parts/meeting_lists.h"

#include <math.h>
#include <string.h>

enum {
    CODES_LEAST = 4096, /* codes that are always few enough, */
    CODES_A_ROW = 8,    /* and codes per row; */
    ROWS_A_CODE = 2,    /* more rows for each code are too dense for lists */
    PIECE = 1024,       /* entries after which a list is handed over, at the next hash */
    WALK_ROWS = 64,     /* that a thread takes at a time */
};

void meeting_lists_lay_out(struct meeting_lists *lists, struct arena *arena, const struct hashing *hashing,
                           size_t num_queries, size_t num_keys, size_t workers)
{
    size_t codes = (size_t)1 << hashing->hash_bits, most = num_queries > num_keys ? num_queries : num_keys;
    /* More rows come without lists, but take no less memory. */
    size_t rows = most < ROWS_A_CODE * codes ? most : ROWS_A_CODE * codes;
    bool taken = codes <= CODES_LEAST || codes / CODES_A_ROW <= rows;
    size_t hashes = taken ? hashing->num_hashes : 0;
    *lists = (struct meeting_lists){.num_hashes = hashing->num_hashes,
                                    .buckets = codes,
                                    .stride = rows + 1,
                                    .capacity = rows + PIECE + 2,
                                    .density = taken && rows == most ? -1 : INFINITY};
    lists->heads = arena_take(arena, hashes, size_product(lists->buckets, sizeof *lists->heads));
    lists->next = arena_take(arena, hashes, size_product(lists->stride, sizeof *lists->next));
    lists->list = arena_take(arena, taken ? workers : 0, size_product(lists->capacity, sizeof *lists->list));
}

static inline uint32_t code_at(const struct codes *codes, const bool wide, size_t row, size_t hash)
{
    size_t at = row * codes->num_hashes + hash;
    return wide ? ((const uint32_t *)codes->data)[at] : ((const uint16_t *)codes->data)[at];
}

double meeting_lists_density(struct meeting_lists *lists, const struct codes *queries,
                             const struct codes *keys)
{
    double meetings = 0;
    uint32_t *sizes = lists->heads; /* in use only when the chains are made */
    if (lists->density >= 0)
        return lists->density;
    memset(sizes, 0, lists->buckets * sizeof *sizes);
    for (size_t i = 0; i < queries->n; i++)
        sizes[code_at(queries, queries->wide, i, 0)]++;
    for (size_t j = 0; j < keys->n; j++)
        meetings += sizes[code_at(keys, keys->wide, j, 0)];
    return lists->density = 2 * meetings / ((double)queries->n + (double)keys->n);
}

/* ---- chains -------------------------------------------------------------------------------------------- */

struct making {
    const struct meeting_lists *lists;
    const struct codes *codes;
};

static void make_hash(void *argument, size_t hash, int worker)
{
    (void)worker;
    const struct making *making = argument;
    const struct meeting_lists *lists = making->lists;
    const struct codes *codes = making->codes;
    uint32_t *heads = lists->heads + hash * lists->buckets, *next = lists->next + hash * lists->stride;
    memset(heads, 0, lists->buckets * sizeof *heads);
    next[0] = 0;
    for (size_t row = codes->n; row > 0; row--) {
        uint32_t code = code_at(codes, codes->wide, row - 1, hash);
        next[row] = heads[code];
        heads[code] = (uint32_t)row;
    }
}

void meeting_lists_make(struct meeting_lists *lists, struct pool *pool, const struct codes *codes)
{
    struct making making = {lists, codes};
    if (lists->of == codes->data)
        return;
    pool_run(pool, make_hash, &making, lists->num_hashes);
    lists->of = codes->data;
}

/* ---- lists --------------------------------------------------------------------------------------------- */

struct walk {
    const struct meeting_lists *lists;
    const struct codes *codes;
    void (*take)(void *argument, size_t row, const uint32_t *list, size_t count, int worker);
    void *argument;
};

static inline __attribute__((always_inline)) void walk_row(const struct walk *walk, const bool wide,
                                                           size_t row, uint32_t *list, int worker)
{
    const uint32_t *heads = walk->lists->heads, *next = walk->lists->next;
    size_t buckets = walk->lists->buckets, stride = walk->lists->stride, count = 0;
    for (size_t hash = 0; hash < walk->lists->num_hashes; hash++, heads += buckets, next += stride) {
        uint32_t first = heads[code_at(walk->codes, wide, row, hash)], second = next[first];
        list[count] = (first - 1) | (second > 0 ? LIST_JOINED : 0);
        count += first > 0;
        list[count] = second - 1;
        count += second > 0;
        for (uint32_t other = next[second]; other > 0; other = next[other]) {
            list[count - 1] |= LIST_JOINED;
            list[count++] = other - 1;
        }
        if (count >= PIECE) {
            walk->take(walk->argument, row, list, count, worker);
            count = 0;
        }
    }
    if (count > 0)
        walk->take(walk->argument, row, list, count, worker);
}

static void walk_block(void *argument, size_t index, int worker)
{
    const struct walk *walk = argument;
    uint32_t *list = walk->lists->list + (size_t)worker * walk->lists->capacity;
    size_t end = (index + 1) * WALK_ROWS < walk->codes->n ? (index + 1) * WALK_ROWS : walk->codes->n;
    for (size_t row = index * WALK_ROWS; row < end; row++)
        if (walk->codes->wide)
            walk_row(walk, true, row, list, worker);
        else
            walk_row(walk, false, row, list, worker);
}

void meeting_lists_walk(const struct meeting_lists *lists, struct pool *pool, const struct codes *codes,
                        void (*take)(void *argument, size_t row, const uint32_t *list, size_t count,
                                     int worker),
                        void *argument)
{
    struct walk walk = {lists, codes, take, argument};
    pool_run(pool, walk_block, &walk, (codes->n + WALK_ROWS - 1) / WALK_ROWS);
}
