/* A radix sort that starts at the low digit. Up to 12 bits are one pass (a counting sort), so the usual
   hash_bits cost about 1 ns a code; more bits, or few rows, take digits of about log2 n bits, so that the
   counters never cost more than the rows: O(n) for any hash_bits. SPDX-License-Identifier: Apache-2.0 */
#include "parts/buckets.h"

#include <string.h>

enum { DIGIT_LEAST = 6, DIGIT_MOST = 12 };

static size_t digit_bits(size_t n, size_t hash_bits)
{
    size_t most = DIGIT_LEAST;
    while (most < DIGIT_MOST && (size_t)1 << most < n)
        most++;
    size_t passes = (hash_bits + most - 1) / most;
    return (hash_bits + passes - 1) / passes;
}

void buckets_lay_out(struct buckets *buckets, struct arena *arena, size_t num_queries, size_t num_keys)
{
    size_t most = num_queries > num_keys ? num_queries : num_keys;
    buckets->queries.rows = arena_take(arena, num_queries, sizeof(uint32_t));
    buckets->queries.codes = arena_take(arena, num_queries, sizeof(uint32_t));
    buckets->keys.rows = arena_take(arena, num_keys, sizeof(uint32_t));
    buckets->keys.codes = arena_take(arena, num_keys, sizeof(uint32_t));
    buckets->work =
        arena_take(arena, size_sum(size_product(2, most), (size_t)1 << DIGIT_MOST), sizeof(uint32_t));
}

static void take_codes(uint32_t *out, const struct codes *codes, size_t hash)
{
    if (codes->wide)
        for (size_t i = 0; i < codes->n; i++)
            out[i] = ((const uint32_t *)codes->data)[i * codes->num_hashes + hash];
    else
        for (size_t i = 0; i < codes->n; i++)
            out[i] = ((const uint16_t *)codes->data)[i * codes->num_hashes + hash];
}

/* One stable pass over a digit. rows_in NULL: the rows are 0, 1, 2, ... */
static void sort_digit(uint32_t *rows, uint32_t *codes, const uint32_t *rows_in, const uint32_t *codes_in,
                       size_t n, size_t shift, size_t bits, uint32_t *counter)
{
    uint32_t mask = ((uint32_t)1 << bits) - 1, sum = 0;
    memset(counter, 0, ((size_t)mask + 1) * sizeof *counter);
    for (size_t i = 0; i < n; i++)
        counter[codes_in[i] >> shift & mask]++;
    for (size_t c = 0; c <= mask; c++) {
        uint32_t count = counter[c];
        counter[c] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t code = codes_in[i], at = counter[code >> shift & mask]++;
        rows[at] = rows_in == NULL ? (uint32_t)i : rows_in[i];
        codes[at] = code;
    }
}

static void sort_side(struct sorted *sorted, const struct codes *codes, size_t hash, size_t hash_bits,
                      uint32_t *work)
{
    size_t n = codes->n, bits = digit_bits(n, hash_bits), passes = (hash_bits + bits - 1) / bits;
    uint32_t *counter = work, *rows[2] = {sorted->rows, work + ((size_t)1 << DIGIT_MOST)},
             *keys[2] = {sorted->codes, rows[1] + n};
    /* The passes go to and fro between the two pairs of arrays; the last one ends in the result. */
    size_t from = passes % 2;
    take_codes(keys[from], codes, hash);
    for (size_t pass = 0; pass < passes; pass++, from ^= 1)
        sort_digit(rows[from ^ 1], keys[from ^ 1], pass == 0 ? NULL : rows[from], keys[from], n, pass * bits,
                   bits, counter);
    sorted->n = n;
}

void buckets_sort(struct buckets *buckets, const struct codes *queries, const struct codes *keys, size_t hash,
                  size_t hash_bits)
{
    sort_side(&buckets->queries, queries, hash, hash_bits, buckets->work);
    sort_side(&buckets->keys, keys, hash, hash_bits, buckets->work);
}

static size_t run_length(const struct sorted *sorted, size_t first)
{
    size_t end = first + 1;
    while (end < sorted->n && sorted->codes[end] == sorted->codes[first])
        end++;
    return end - first;
}

bool buckets_next(const struct buckets *buckets, struct bucket *bucket)
{
    const struct sorted *queries = &buckets->queries, *keys = &buckets->keys;
    size_t query = bucket->first_query + bucket->num_queries, key = bucket->first_key + bucket->num_keys;
    while (query < queries->n && key < keys->n) {
        uint32_t query_code = queries->codes[query], key_code = keys->codes[key];
        if (query_code == key_code) {
            *bucket = (struct bucket){.first_query = query,
                                      .num_queries = run_length(queries, query),
                                      .first_key = key,
                                      .num_keys = run_length(keys, key)};
            return true;
        }
        query += query_code < key_code;
        key += key_code < query_code;
    }
    return false;
}

struct bucket buckets_before(const struct buckets *buckets, size_t first_query)
{
    const struct sorted *queries = &buckets->queries, *keys = &buckets->keys;
    struct bucket bucket = {.first_query = first_query};
    while (first_query > 0 && bucket.first_query < queries->n &&
           queries->codes[bucket.first_query] == queries->codes[bucket.first_query - 1])
        bucket.first_query++;
    /* The first key of that code or above, by halves. */
    for (size_t end = keys->n; bucket.first_query < queries->n && bucket.first_key < end;) {
        size_t middle = bucket.first_key + (end - bucket.first_key) / 2;
        if (keys->codes[middle] < queries->codes[bucket.first_query])
            bucket.first_key = middle + 1;
        else
            end = middle;
    }
    return bucket;
}
