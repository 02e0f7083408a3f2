/* One table per hash, as many hashes in a pass as fit half the second cache; a table that does not fit alone
   is done in slices of columns. Cost: 2 n m d additions and 3 n m d words moved, which is what counts.
   Every pass also streams the rows that give and the rows that take, 3 d words a token. When those are too
   many for the third cache, memory would decide: then fewer, fuller passes (the whole second cache) over half
   the columns move a third of it. Measured, ns per token and hash, d 64, tau 9, 4 hashes x 64 columns against
   16 x 32: 5.9 and 7.3 at n 4096, 11 to 14 and 8.3 at 16384, 16 and 8.0 at 65536.
   Where there are more codes than rows (short sequences, large hash_bits), clearing and missing the cache
   would cost more than the rows do. There the buckets of one hash are found and their sums carried one by
   one: O(n) memory and time for any hash_bits. Measured on codes drawn uniformly, buckets over tables: at 4
   codes a row (n 128, tau 9, d 64) 0.8, at 2 about 1, at 1 1.2 to 1.3. Threads share the columns: each
   carries all hashes for columns of its own and never waits. More threads than 16 columns feed fill the
   tables of different hashes side by side instead, and then read them all for different rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hash_tables.h"

#include <string.h>

#include "parts/causal_tables.h"

enum {
    PASS_FLOATS = 128 * 1024,  /* of all tables of a pass: half of a second cache of 1 MiB */
    LONG_FLOATS = 1024 * 1024, /* of all rows: beyond it a pass is LONG_PASS floats of LONG_SLICE columns */
    LONG_PASS = 256 * 1024,
    LONG_SLICE = 32,
    SLICE = 16, /* the narrowest slice of columns: one cache line */
    READ_ROWS = 256,
    CODES_A_ROW = 3, /* more codes for each row, the mean of both sides, are done by buckets */
};

static void lay_out_tables(struct tables *tables, struct arena *arena, size_t rows, size_t dim)
{
    bool is_long = size_product(rows, dim) > LONG_FLOATS;
    tables->columns = is_long ? size_min(dim, LONG_SLICE) : dim;
    size_t slice = size_product(tables->buckets, size_min(dim, SLICE));
    size_t all = size_product(size_product(tables->buckets, dim), tables->hashing.num_hashes);
    tables->capacity = size_min(all, size_max(slice, is_long ? LONG_PASS : PASS_FLOATS));
    tables->table = arena_take(arena, size_product(tables->workers, tables->capacity), sizeof *tables->table);
}

void tables_lay_out(struct tables *tables, struct arena *arena, const struct hashing *hashing,
                    size_t num_queries, size_t num_keys, size_t dim, size_t workers)
{
    size_t codes = (size_t)1 << hashing->hash_bits, few = 2 * codes / CODES_A_ROW;
    size_t rows = size_sum(num_queries, num_keys);
    *tables = (struct tables){.hashing = *hashing, .workers = workers, .buckets = codes};
    tables->by_buckets = rows < few;
    if (tables->by_buckets) {
        bucket_walk_lay_out(&tables->walk, arena, hashing, num_queries, num_keys);
        return;
    }
    /* No less than what fewer rows take, that do without tables. */
    struct arena all = arena_on(NULL), least = arena_on(NULL);
    lay_out_tables(tables, &all, rows, dim);
    bucket_walk_lay_out(&tables->walk, &least, hashing, size_min(num_queries, few), size_min(num_keys, few));
    struct arena own = arena_on(arena_take(arena, size_max(all.used, least.used), 1));
    lay_out_tables(tables, &own, rows, dim);
}

/* ---- passes -------------------------------------------------------------------------------------------- */

/* What is carried, and how it is cut. */
struct carry {
    const struct kernels *kernels;
    const struct tables *tables;
    struct codes queries, keys;
    bool to_queries;
    const float *values;
    size_t ld_values;
    float *out;
    size_t ld_out, dim;
    size_t first, count; /* hashes of this pass */
    size_t begin, end;   /* columns of this pass */
    size_t slice;        /* columns of one thread, or of one table */
};

static const struct codes *giving(const struct carry *carry)
{
    return carry->to_queries ? &carry->keys : &carry->queries;
}

static const struct codes *receiving(const struct carry *carry)
{
    return carry->to_queries ? &carry->queries : &carry->keys;
}

static void clear_and_add(const struct carry *carry, float *table, size_t first, size_t count, size_t c,
                          size_t width)
{
    const struct codes *from = giving(carry);
    memset(table, 0, count * carry->tables->buckets * width * sizeof *table);
    carry->kernels->table_add(table, carry->tables->buckets, from->data, from->wide, from->num_hashes, first,
                              count, carry->values + c, carry->ld_values, from->n, width);
}

/* Rows [row, row + rows) of the receiving side. */
static void read(const struct carry *carry, const float *table, size_t first, size_t count, size_t c,
                 size_t width, size_t row, size_t rows)
{
    const struct codes *to = receiving(carry);
    size_t code_bytes = to->wide ? sizeof(uint32_t) : sizeof(uint16_t);
    const char *codes = (const char *)to->data + row * to->num_hashes * code_bytes;
    carry->kernels->table_read(carry->out + row * carry->ld_out + c, carry->ld_out, table,
                               carry->tables->buckets, codes, to->wide, to->num_hashes, first, count, rows,
                               width);
}

static void carry_causal(const struct carry *carry, float *table, size_t first, size_t count, size_t c,
                         size_t width)
{
    const struct causal_pass pass = {
        .queries = &carry->queries,
        .keys = &carry->keys,
        .visible = carry->tables->visible,
        .table = table,
        .buckets = carry->tables->buckets,
        .first = first,
        .count = count,
        .dim = width,
        .values = carry->values + c,
        .out = carry->out + c,
        .ld_values = carry->ld_values,
        .ld_out = carry->ld_out,
    };
    memset(table, 0, count * carry->tables->buckets * width * sizeof *table);
    if (carry->to_queries)
        causal_keys_to_queries(carry->kernels, &pass);
    else
        causal_queries_to_keys(carry->kernels, &pass);
}

/* The hashes of the pass for the columns [c, end), by one thread in its own memory. */
static void carry_columns(const struct carry *carry, size_t c, size_t end, float *table)
{
    const struct tables *tables = carry->tables;
    size_t columns = size_min(size_min(end - c, tables->columns), tables->capacity / tables->buckets);
    if (columns > SLICE && columns < end - c)
        columns -= columns % SLICE;
    size_t at_once = size_min(carry->count, tables->capacity / (tables->buckets * columns));
    for (size_t hash = 0; hash < carry->count; hash += at_once)
        for (size_t from = c; from < end; from += columns) {
            size_t width = size_min(columns, end - from), count = size_min(at_once, carry->count - hash);
            if (tables->visible != NULL) {
                carry_causal(carry, table, carry->first + hash, count, from, width);
                continue;
            }
            clear_and_add(carry, table, carry->first + hash, count, from, width);
            read(carry, table, carry->first + hash, count, from, width, 0, receiving(carry)->n);
        }
}

static void carry_slice(void *argument, size_t index, int worker)
{
    const struct carry *carry = argument;
    size_t c = index * carry->slice;
    carry_columns(carry, c, size_min(carry->dim, c + carry->slice),
                  carry->tables->table + (size_t)worker * carry->tables->capacity);
}

/* ---- more threads than slices -------------------------------------------------------------------------- */

/* All threads share their memory: tables of different hashes and slices are filled side by side, then blocks
   of rows read them all. */
static float *table_of(const struct carry *carry, size_t slice, size_t hash)
{
    return carry->tables->table + (slice * carry->count + hash) * carry->tables->buckets * carry->slice;
}

/* Columns of slice s, and where they begin. */
static size_t width_of(const struct carry *carry, size_t slice, size_t *c)
{
    *c = carry->begin + slice * carry->slice;
    return size_min(carry->slice, carry->end - *c);
}

static void fill_table(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct carry *carry = argument;
    size_t slice = index / carry->count, hash = index % carry->count, c, width = width_of(carry, slice, &c);
    clear_and_add(carry, table_of(carry, slice, hash), carry->first + hash, 1, c, width);
}

static void read_block(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct carry *carry = argument;
    size_t row = index * READ_ROWS, rows = size_min(READ_ROWS, receiving(carry)->n - row), c;
    for (size_t slice = 0; carry->begin + slice * carry->slice < carry->end; slice++) {
        size_t width = width_of(carry, slice, &c);
        /* Tables of a narrow last slice do not adjoin. */
        size_t at_once = width == carry->slice ? carry->count : 1;
        for (size_t hash = 0; hash < carry->count; hash += at_once)
            read(carry, table_of(carry, slice, hash), carry->first + hash, at_once, c, width, row, rows);
    }
}

static void carry_together(struct pool *pool, struct carry *carry)
{
    const struct tables *tables = carry->tables;
    size_t rows = tables->capacity * tables->workers / tables->buckets,
           num_hashes = tables->hashing.num_hashes;
    size_t blocks = (receiving(carry)->n + READ_ROWS - 1) / READ_ROWS;
    size_t columns = rows >= carry->dim ? carry->dim : rows - rows % SLICE;
    for (; carry->begin < carry->dim; carry->begin = carry->end) {
        carry->end = size_min(carry->dim, carry->begin + columns);
        /* Slices only where whole rows would be too few tables for the threads. */
        bool whole = size_min(num_hashes, rows / columns) >= 2 * tables->workers;
        carry->slice = size_min(whole ? columns : SLICE, carry->end - carry->begin);
        size_t slices = (carry->end - carry->begin + carry->slice - 1) / carry->slice;
        for (carry->first = 0; carry->first < num_hashes; carry->first += carry->count) {
            carry->count = size_min(size_max(rows / (slices * carry->slice), 1), num_hashes - carry->first);
            pool_run(pool, fill_table, carry, slices * carry->count);
            pool_run(pool, read_block, carry, blocks);
        }
    }
}

/* ---- buckets instead of tables ------------------------------------------------------------------------- */

static void carry_part(void *argument, const struct buckets *buckets, size_t hash, size_t first, size_t end,
                       int worker)
{
    (void)hash, (void)worker;
    const struct carry *carry = argument;
    carry->kernels->bucket_carry(&(struct bucket_carry){
        .buckets = buckets->list + first,
        .count = end - first,
        .queries = buckets->queries,
        .keys = buckets->keys,
        .visible = carry->tables->visible,
        .to_queries = carry->to_queries,
        .values = carry->values,
        .out = carry->out,
        .ld_values = carry->ld_values,
        .ld_out = carry->ld_out,
        .dim = carry->dim,
    });
}

/* Columns of each thread, where they can be shared out with little idle time; 0 where not. */
static size_t slice_for(size_t dim, size_t workers)
{
    size_t lines = (dim + SLICE - 1) / SLICE, each = (lines + workers - 1) / workers;
    return 4 * each * workers <= 5 * lines ? each * SLICE : 0;
}

void tables_carry(const struct kernels *kernels, struct pool *pool, struct tables *tables,
                  const struct codes *queries, const struct codes *keys, enum tables_direction direction,
                  const float *values, size_t ld_values, float *out, size_t ld_out, size_t dim)
{
    struct carry carry = {
        .kernels = kernels,
        .tables = tables,
        .queries = *queries,
        .keys = *keys,
        .to_queries = direction == KEYS_TO_QUERIES,
        .values = values,
        .ld_values = ld_values,
        .out = out,
        .ld_out = ld_out,
        .dim = dim,
        .count = tables->hashing.num_hashes,
    };
    if (tables->by_buckets) {
        bucket_walk_run(&tables->walk, pool, bucket_walk_parts(pool), queries, keys, carry_part, &carry);
        return;
    }
    size_t workers = pool == NULL ? 1 : tables->workers;
    carry.slice = slice_for(dim, workers);
    /* Rows that are read while others are still to come cannot be read side by side. */
    bool together = carry.slice == 0 && tables->visible == NULL;
    carry.slice = carry.slice == 0 ? SLICE : carry.slice;
    if (together)
        carry_together(pool, &carry);
    else
        pool_run(pool, carry_slice, &carry, (dim + carry.slice - 1) / carry.slice);
}
