/* One table per hash, as many hashes in a pass as fit half the second cache; a table that does not fit alone
   is done in slices of columns. Cost: 2 n m d additions and 3 n m d words moved, which is what counts.
   Every pass also streams the rows that give and the rows that take, 3 d words a token. When those are too
   many for the third cache, memory would decide: then fewer, fuller passes (the whole second cache) over half
   the columns move a third of it. Measured, ns per token and hash, d 64, tau 9, 4 hashes x 64 columns against
   16 x 32: 5.9 and 7.3 at n 4096, 11 to 14 and 8.3 at 16384, 16 and 8.0 at 65536.
   Where there are many more codes than rows (short sequences, large hash_bits), clearing and missing the
   cache would cost more than the rows do. There the codes of one hash are renumbered: codes that both sides
   have become 2, 3, ... in rising order, the codes that only keys have become 0, those that only queries have
   1. Whichever side gives, the other reads no row that was not meant for it, and the table has at most
   min(n_q, n_k) + 2 rows: O(n) memory and time for any hash_bits. SPDX-License-Identifier: Apache-2.0 */
#include "parts/hash_tables.h"

#include <string.h>

#include "parts/causal_tables.h"

enum {
    PASS_FLOATS = 128 * 1024,  /* of all tables of a pass: half of a second cache of 1 MiB */
    LONG_FLOATS = 1024 * 1024, /* of all rows: beyond it a pass is LONG_PASS floats of LONG_SLICE columns */
    LONG_PASS = 256 * 1024,
    LONG_SLICE = 32,
    RENUMBER = 6, /* codes per row from which on renumbering is faster: measured at tau 9 and 12 */
    SLICE = 16,   /* the narrowest slice of columns: one cache line */
    ONLY_KEYS = 0,
    ONLY_QUERIES = 1,
    SHARED = 2,
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void tables_lay_out(struct tables *tables, struct arena *arena, const struct hashing *hashing,
                    size_t num_queries, size_t num_keys, size_t dim)
{
    size_t codes = (size_t)1 << hashing->hash_bits, shared = smaller(num_queries, num_keys) + SHARED;
    tables->hashing = *hashing;
    tables->visible = NULL;
    tables->renumber = codes / RENUMBER > shared;
    tables->buckets = tables->renumber ? shared : codes;
    bool is_long = size_product(size_sum(num_queries, num_keys), dim) > LONG_FLOATS;
    tables->columns = is_long ? smaller(dim, LONG_SLICE) : dim;
    size_t slice = size_product(tables->buckets, smaller(dim, SLICE));
    size_t all = size_product(size_product(tables->buckets, dim), tables->renumber ? 1 : hashing->num_hashes);
    tables->capacity = smaller(all, larger(slice, is_long ? LONG_PASS : PASS_FLOATS));
    tables->table = arena_take(arena, tables->capacity, sizeof *tables->table);
    tables->query_codes = arena_take(arena, num_queries, sizeof *tables->query_codes);
    tables->key_codes = arena_take(arena, num_keys, sizeof *tables->key_codes);
}

static void fill(uint32_t *codes, size_t n, uint32_t code)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = code;
}

static void renumber(const struct tables *tables, struct buckets *buckets, const struct codes *queries,
                     const struct codes *keys, size_t hash)
{
    buckets_sort(buckets, queries, keys, hash, tables->hashing.hash_bits);
    fill(tables->query_codes, queries->n, ONLY_QUERIES);
    fill(tables->key_codes, keys->n, ONLY_KEYS);
    uint32_t code = SHARED;
    for (struct bucket bucket = {0}; buckets_next(buckets, &bucket); code++) {
        for (size_t i = 0; i < bucket.num_queries; i++)
            tables->query_codes[buckets->queries.rows[bucket.first_query + i]] = code;
        for (size_t j = 0; j < bucket.num_keys; j++)
            tables->key_codes[buckets->keys.rows[bucket.first_key + j]] = code;
    }
}

/* Hashes [first, first + count) of the codes, in slices of columns. */
static void carry(const struct kernels *kernels, const struct tables *tables, const struct codes *queries,
                  const struct codes *keys, enum tables_direction direction, size_t first, size_t count,
                  size_t columns, const float *values, size_t ld_values, float *out, size_t ld_out,
                  size_t dim)
{
    bool to_queries = direction == KEYS_TO_QUERIES;
    const struct codes *from = to_queries ? keys : queries, *to = to_queries ? queries : keys;
    for (size_t c = 0; c < dim; c += columns) {
        size_t width = smaller(columns, dim - c);
        memset(tables->table, 0, count * tables->buckets * width * sizeof *tables->table);
        if (tables->visible != NULL) {
            const struct causal_pass pass = {
                .queries = queries,
                .keys = keys,
                .visible = tables->visible,
                .table = tables->table,
                .buckets = tables->buckets,
                .first = first,
                .count = count,
                .dim = width,
                .values = values + c,
                .out = out + c,
                .ld_values = ld_values,
                .ld_out = ld_out,
            };
            if (to_queries)
                causal_keys_to_queries(kernels, &pass);
            else
                causal_queries_to_keys(kernels, &pass);
            continue;
        }
        kernels->table_add(tables->table, tables->buckets, from->data, from->wide, from->num_hashes, first,
                           count, values + c, ld_values, from->n, width);
        kernels->table_read(out + c, ld_out, tables->table, tables->buckets, to->data, to->wide,
                            to->num_hashes, first, count, to->n, width);
    }
}

void tables_carry(const struct kernels *kernels, const struct tables *tables, struct buckets *buckets,
                  const struct codes *queries, const struct codes *keys, enum tables_direction direction,
                  const float *values, size_t ld_values, float *out, size_t ld_out, size_t dim)
{
    size_t columns = smaller(smaller(dim, tables->columns), tables->capacity / tables->buckets);
    if (columns > SLICE && columns < dim)
        columns -= columns % SLICE;
    size_t at_once = smaller(tables->hashing.num_hashes, tables->capacity / (tables->buckets * columns));
    struct codes new_queries = {tables->query_codes, true, 1, queries->n};
    struct codes new_keys = {tables->key_codes, true, 1, keys->n};
    if (tables->renumber) {
        for (size_t hash = 0; hash < tables->hashing.num_hashes; hash++) {
            renumber(tables, buckets, queries, keys, hash);
            carry(kernels, tables, &new_queries, &new_keys, direction, 0, 1, columns, values, ld_values, out,
                  ld_out, dim);
        }
        return;
    }
    for (size_t first = 0; first < tables->hashing.num_hashes; first += at_once)
        carry(kernels, tables, queries, keys, direction, first,
              smaller(at_once, tables->hashing.num_hashes - first), columns, values, ld_values, out, ld_out,
              dim);
}
