/* Codes of trained models are in few buckets, and most buckets have rows of only one side (listops at
   tau 11, n 500 to 2,000: 0.05 to 0.4 codes per row, of which 3 to 50 occur on both sides; 150 before
   training). So rows without a partner are dropped before anything is sorted: marks tell which codes each
   side has, the codes of both are numbered, and rows are kept by number, without a branch that depends on a
   code. The remaining rows are counted and laid out by number. Measured on listops: about 1.2 ns per row and
   side, half of it for rows that are dropped. Counters have a separate pass: in the same pass, all dropped
   rows would increment one counter and wait for each other (a sixth of the time). Numbering codes as the
   first query arrives costs a tenth more, because the branch mispredicts. With more than DIRECT_BITS bits
   the marks would exceed L1: then they mark only the low bits, and the remaining rows are radix sorted, O(n)
   for any hash_bits.
   Buckets are ordered by shape, and their rows with them: loops over the pairs of equal buckets follow each
   other, so that branches predict well (a tenth of the time of pairs at n 1024, tau 9). Large ones come
   first, so that threads end together. Buckets of a hash share no row, so the order changes no bit.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/buckets.h"

#include <string.h>

enum {
    DIRECT_BITS = 12,
    DIRECT = 1 << DIRECT_BITS,
    DIGIT_LEAST = 6, /* bits of a digit: about log2 n, so that counters never cost more than rows */
    EIGHT = 8,       /* marks in a word */
    SHAPE_SIDE = 16, /* sizes of a side that are told apart: larger ones count as the largest */
    SHAPES = SHAPE_SIDE * SHAPE_SIDE,
};

/* Number of marks: one per code, or per value of its low bits; whole words. */
static size_t marks_of(size_t hash_bits)
{
    size_t bits = size_min(hash_bits, DIRECT_BITS);
    return (size_t)1 << (bits < 3 ? 3 : bits);
}

void buckets_init(struct buckets *buckets, struct arena *arena, const struct hashing *hashing,
                  size_t num_queries, size_t num_keys)
{
    bool direct = hashing->hash_bits <= DIRECT_BITS;
    size_t n[2] = {num_queries, num_keys}, least = size_min(num_queries, num_keys);
    size_t codes = (size_t)1 << size_min(hashing->hash_bits, DIRECT_BITS);
    buckets->hash_bits = hashing->hash_bits;
    buckets->list = arena_take(arena, direct ? size_min(least, codes) : least, sizeof *buckets->list);
    buckets->by_code = arena_take(arena, direct ? size_min(least, codes) : least, sizeof *buckets->by_code);
    buckets->queries = arena_take(arena, num_queries, sizeof *buckets->queries);
    buckets->keys = arena_take(arena, num_keys, sizeof *buckets->keys);
    buckets->numbers = arena_take(arena, marks_of(hashing->hash_bits), sizeof *buckets->numbers);
    for (size_t side = 0; side < 2; side++) {
        buckets->marks[side] = arena_take(arena, marks_of(hashing->hash_bits), 1);
        buckets->counters[side] = arena_take(arena, codes + 1, sizeof **buckets->counters);
        buckets->found[side] = arena_take(arena, direct ? n[side] : 0, sizeof **buckets->found);
        buckets->ranks[side] = arena_take(arena, direct ? n[side] : 0, sizeof **buckets->ranks);
        for (size_t i = 0; i < 2; i++) {
            buckets->sorts[side].rows[i] = arena_take(arena, direct ? 0 : n[side], sizeof(uint32_t));
            buckets->sorts[side].codes[i] = arena_take(arena, direct ? 0 : n[side], sizeof(uint32_t));
        }
    }
}

/* ---- order by shape ------------------------------------------------------------------------------------ */

static size_t shape_of(const struct bucket *bucket)
{
    size_t queries = size_min(bucket->num_queries, SHAPE_SIDE) - 1,
           keys = size_min(bucket->num_keys, SHAPE_SIDE) - 1;
    return SHAPES - 1 - (keys * SHAPE_SIDE + queries);
}

/* list <- by_code in order of shape, those with most keys first, then those with most queries. With fewer
   buckets than shapes the order stays: sorting would cost more than it saves (0.07 of backward at n 256). */
static void sort_by_shape(struct buckets *buckets)
{
    if (buckets->count < SHAPES) {
        memcpy(buckets->list, buckets->by_code, buckets->count * sizeof *buckets->list);
        return;
    }
    uint32_t places[SHAPES + 1] = {0};
    const struct bucket *end = buckets->by_code + buckets->count;
    for (const struct bucket *b = buckets->by_code; b < end; b++)
        places[shape_of(b) + 1]++;
    for (size_t s = 0; s < SHAPES; s++)
        places[s + 1] += places[s];
    for (const struct bucket *b = buckets->by_code; b < end; b++)
        buckets->list[places[shape_of(b)]++] = *b;
}

/* ---- few bits ------------------------------------------------------------------------------------------ */

static void mark(uint8_t *marks, const uint16_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        marks[codes[i]] = 1;
}

/* Numbers the codes that both sides have, from 1, in rising order; returns their number. */
static size_t number_shared(const struct buckets *buckets)
{
    const uint8_t *a = buckets->marks[0], *b = buckets->marks[1];
    size_t codes = (size_t)1 << buckets->hash_bits, shared = 0;
    memset(buckets->numbers, 0, marks_of(buckets->hash_bits) * sizeof *buckets->numbers);
    for (size_t c = 0; c < codes; c += EIGHT) { /* there is room for at least eight */
        uint64_t some, others;
        memcpy(&some, a + c, EIGHT);
        memcpy(&others, b + c, EIGHT);
        if ((some & others) == 0)
            continue;
        for (size_t i = c; i < c + EIGHT; i++) {
            bool both = a[i] & b[i];
            buckets->numbers[i] = (uint16_t)(both ? shared + 1 : 0);
            shared += both;
        }
    }
    return shared;
}

/* Keeps the rows whose code has a number, and these numbers; returns how many. */
static size_t keep_shared(uint32_t *found, uint16_t *ranks, const uint16_t *numbers, const uint16_t *codes,
                          size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t number = numbers[codes[i]];
        found[left] = (uint32_t)i;
        ranks[left] = number;
        left += number > 0;
    }
    return left;
}

/* Counts the rows of each rank. (A separate pass: see the head of the file.) */
static void count(uint32_t *counts, size_t num_ranks, const uint16_t *ranks, size_t n)
{
    memset(counts, 0, num_ranks * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        counts[ranks[i]]++;
}

/* Writes each row to its place; places[rank] is the next place of the rank. */
static void place(uint32_t *rows, const uint32_t *found, const uint16_t *ranks, size_t n, uint32_t *places)
{
    for (size_t i = 0; i < n; i++)
        rows[places[ranks[i]]++] = found[i];
}

static void find_direct(struct buckets *buckets, const uint16_t *const codes[2], const size_t n[2])
{
    uint32_t *rows[2] = {buckets->queries, buckets->keys};
    for (size_t side = 0; side < 2; side++) {
        memset(buckets->marks[side], 0, marks_of(buckets->hash_bits));
        mark(buckets->marks[side], codes[side], n[side]);
    }
    buckets->count = number_shared(buckets);
    size_t left[2];
    for (size_t side = 0; side < 2; side++) {
        left[side] =
            keep_shared(buckets->found[side], buckets->ranks[side], buckets->numbers, codes[side], n[side]);
        count(buckets->counters[side], buckets->count + 1, buckets->ranks[side], left[side]);
    }
    buckets->num_queries = left[0];
    buckets->num_keys = left[1];
    uint32_t *queries = buckets->counters[0] + 1, *keys = buckets->counters[1] + 1;
    for (size_t b = 0; b < buckets->count; b++)
        buckets->by_code[b] = (struct bucket){(uint32_t)b, queries[b], (uint32_t)b, keys[b]};
    sort_by_shape(buckets);
    uint32_t next_query = 0, next_key = 0;
    for (struct bucket *b = buckets->list; b < buckets->list + buckets->count; b++) {
        queries[b->first_query] = next_query;
        keys[b->first_key] = next_key;
        b->first_query = next_query;
        b->first_key = next_key;
        next_query += b->num_queries;
        next_key += b->num_keys;
    }
    for (size_t side = 0; side < 2; side++)
        place(rows[side], buckets->found[side], buckets->ranks[side], left[side], buckets->counters[side]);
}

/* ---- many bits ----------------------------------------------------------------------------------------- */

static uint32_t code_at(const void *codes, bool wide, size_t i)
{
    return wide ? ((const uint32_t *)codes)[i] : ((const uint16_t *)codes)[i];
}

static void mark_low(uint8_t *marks, const void *codes, bool wide, size_t n)
{
    memset(marks, 0, DIRECT);
    for (size_t i = 0; i < n; i++)
        marks[code_at(codes, wide, i) % DIRECT] = 1;
}

/* Keeps the rows whose low bits occur on the other side; returns how many. */
static size_t keep_marked(const struct digit_sort *sort, const uint8_t *others, const void *codes, bool wide,
                          size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t code = code_at(codes, wide, i);
        sort->rows[0][left] = (uint32_t)i;
        sort->codes[0][left] = code;
        left += others[code % DIRECT];
    }
    return left;
}

/* One stable pass over a digit. */
static void sort_digit(const struct digit_sort *sort, size_t from, size_t n, size_t shift, size_t bits,
                       uint32_t *counter)
{
    const uint32_t *codes = sort->codes[from];
    uint32_t mask = ((uint32_t)1 << bits) - 1, sum = 0;
    memset(counter, 0, ((size_t)mask + 1) * sizeof *counter);
    for (size_t i = 0; i < n; i++)
        counter[codes[i] >> shift & mask]++;
    for (size_t c = 0; c <= mask; c++) {
        uint32_t count = counter[c];
        counter[c] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t at = counter[codes[i] >> shift & mask]++;
        sort->rows[from ^ 1][at] = sort->rows[from][i];
        sort->codes[from ^ 1][at] = codes[i];
    }
}

static size_t digit_bits(size_t n, size_t hash_bits)
{
    size_t most = DIGIT_LEAST;
    while (most < DIRECT_BITS && (size_t)1 << most < n)
        most++;
    size_t passes = (hash_bits + most - 1) / most;
    return (hash_bits + passes - 1) / passes;
}

/* Returns which of the two arrays of rows and codes holds the result. */
static size_t sort_side(const struct digit_sort *sort, size_t n, size_t hash_bits, uint32_t *counter)
{
    size_t bits = digit_bits(n, hash_bits), in = 0;
    for (size_t shift = 0; shift < hash_bits; shift += bits, in ^= 1)
        sort_digit(sort, in, n, shift, bits, counter);
    return in;
}

static size_t run_length(const uint32_t *codes, size_t first, size_t n)
{
    size_t end = first + 1;
    while (end < n && codes[end] == codes[first])
        end++;
    return end - first;
}

static void find_sorted(struct buckets *buckets, const struct code_columns *queries, const void *query_codes,
                        const struct code_columns *keys, const void *key_codes)
{
    const struct digit_sort *of_queries = &buckets->sorts[0], *of_keys = &buckets->sorts[1];
    bool wide = queries->wide;
    mark_low(buckets->marks[0], query_codes, wide, queries->n);
    mark_low(buckets->marks[1], key_codes, wide, keys->n);
    size_t n_q = keep_marked(of_queries, buckets->marks[1], query_codes, wide, queries->n),
           n_k = keep_marked(of_keys, buckets->marks[0], key_codes, wide, keys->n);
    size_t in_q = sort_side(of_queries, n_q, buckets->hash_bits, buckets->counters[0]),
           in_k = sort_side(of_keys, n_k, buckets->hash_bits, buckets->counters[1]);
    const uint32_t *a = of_queries->codes[in_q], *b = of_keys->codes[in_k];
    buckets->count = 0;
    for (size_t query = 0, key = 0; query < n_q && key < n_k;) {
        size_t some = run_length(a, query, n_q), others = run_length(b, key, n_k);
        uint32_t query_code = a[query], key_code = b[key];
        if (query_code == key_code)
            buckets->by_code[buckets->count++] =
                (struct bucket){(uint32_t)query, (uint32_t)some, (uint32_t)key, (uint32_t)others};
        query += query_code <= key_code ? some : 0;
        key += key_code <= query_code ? others : 0;
    }
    sort_by_shape(buckets);
    uint32_t next_query = 0, next_key = 0;
    for (struct bucket *bucket = buckets->list; bucket < buckets->list + buckets->count; bucket++) {
        memcpy(buckets->queries + next_query, of_queries->rows[in_q] + bucket->first_query,
               bucket->num_queries * sizeof *buckets->queries);
        memcpy(buckets->keys + next_key, of_keys->rows[in_k] + bucket->first_key,
               bucket->num_keys * sizeof *buckets->keys);
        bucket->first_query = next_query;
        bucket->first_key = next_key;
        next_query += bucket->num_queries;
        next_key += bucket->num_keys;
    }
    buckets->num_queries = next_query;
    buckets->num_keys = next_key;
}

/* -------------------------------------------------------------------------------------------------------- */

void buckets_find(struct buckets *buckets, const struct code_columns *queries,
                  const struct code_columns *keys, size_t hash)
{
    const void *query_codes = code_column(queries, hash), *key_codes = code_column(keys, hash);
    if (buckets->hash_bits <= DIRECT_BITS)
        find_direct(buckets, (const uint16_t *const[2]){query_codes, key_codes},
                    (const size_t[2]){queries->n, keys->n});
    else
        find_sorted(buckets, queries, query_codes, keys, key_codes);
}

/* The first bucket whose queries begin at `place` or after it. */
static size_t bucket_from(const struct buckets *buckets, size_t place)
{
    size_t low = 0, high = buckets->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (buckets->list[middle].first_query < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void buckets_part(const struct buckets *buckets, size_t part, size_t parts, size_t *first, size_t *end)
{
    *first = bucket_from(buckets, buckets->num_queries * part / parts);
    *end =
        part + 1 == parts ? buckets->count : bucket_from(buckets, buckets->num_queries * (part + 1) / parts);
}
