/* One table per hash; a pass has as many hashes as fit half of L2, in slices of SLICE_COLUMNS columns.
   Cost: 2 n m d additions and 3 n m d words moved; the latter dominate.
   Every pass also streams the rows added and the rows read into, 3 d words per token and slice of all
   columns. So a pass takes half the columns of twice the hashes: 8 x 32 instead of 4 x 64 at tau 9 takes 0.91
   to 0.93 of the time of tables with AVX2, and the same with AVX-512 (Zen 4, n 1024 and 4096, d 64). Slices
   of 16 columns take 1.08 to 1.5. When the rows exceed L3, memory bandwidth would dominate. Then a pass fills
   all of L2. Measured, ns per token and hash, d 64, tau 9, 4 hashes x 64 columns against 16 x 32: 11 to 14
   and 8.3 at n 16384, 16 and 8.0 at 65536 (Zen 5).

   With more codes than rows (short sequences, large hash_bits), clearing tables and cache misses would cost
   more than the rows. Then tables have only rows with partners (partner_tables.h): forward as a whole takes
   0.81 of the time at n 256, tau 9, d 64, 0.91 at 384, and 0.79 at n 700, tau 11, d 32 (Zen 4, uniform
   codes). Causal rows and codes of more than PARTNER_BITS bits use buckets instead: those of one hash at a
   time are found and their values are added one by one, O(n) memory and time for any hash_bits. Measured on
   uniform codes, time of buckets over time of tables: 0.8 at 4 codes per row (n 128, tau 9, d 64), about 1 at
   2, 1.2 to 1.3 at 1.

   Threads split the columns: each adds and reads all hashes for its own columns and never waits. With more
   threads than slices of 16 columns, they instead fill the tables of different hashes in parallel, and then
   read all of them for different rows.

   Sums in 16-bit numbers are split the same way, with rows of half as many cache lines (fixed_values.h).
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/hash_tables.h"

#include <string.h>

#include "parts/collisions/causal_tables.h"

enum {
    PASS_FLOATS = 128 * 1024,  /* of all tables of a pass: half of an L2 of 1 MiB */
    LONG_FLOATS = 1024 * 1024, /* of all rows: above this, a pass is LONG_PASS floats */
    LONG_PASS = 256 * 1024,
    SLICE_COLUMNS = 32, /* of a pass, at most */
    SLICE = 16,         /* the narrowest slice of columns: one cache line */
    READ_ROWS = 256,
    CODES_A_ROW = 3,  /* with more codes per row (mean of both sides), buckets are used */
    PARTNER_ROWS = 2, /* with fewer rows per code (both sides together), tables have partners only */
};

static size_t in_blocks(size_t n)
{
    return (n + READ_ROWS - 1) / READ_ROWS;
}

static void lay_out_tables(struct tables *tables, struct arena *arena, size_t rows, size_t dim)
{
    bool is_long = size_product(rows, dim) > LONG_FLOATS;
    tables->fixed_columns = is_long ? SLICE_COLUMNS : dim;
    size_t slice = size_product(tables->buckets, size_min(dim, SLICE));
    size_t all = size_product(size_product(tables->buckets, dim), tables->hashing.num_hashes);
    tables->capacity = size_min(all, size_max(slice, is_long ? LONG_PASS : PASS_FLOATS));
    tables->table = arena_take(arena, size_product(tables->workers, tables->capacity), sizeof *tables->table);
}

/* Rows of both sides together, below which tables are not used. */
static size_t few_rows(const struct hashing *hashing, bool causal)
{
    size_t codes = (size_t)1 << hashing->hash_bits;
    return causal || hashing->hash_bits > PARTNER_BITS ? 2 * codes / CODES_A_ROW : PARTNER_ROWS * codes;
}

static void lay_out_few(struct tables *tables, struct arena *arena, size_t num_queries, size_t num_keys,
                        size_t dim)
{
    if (tables->means == BY_PARTNERS)
        partner_tables_init(&tables->partners, arena, &tables->hashing, num_queries, num_keys, dim,
                            tables->workers);
    else
        bucket_walk_init(&tables->walk, arena, &tables->hashing, num_queries, num_keys);
}

void tables_init(struct tables *tables, struct arena *arena, const struct hashing *hashing,
                 size_t num_queries, size_t num_keys, size_t dim, size_t workers, bool causal, bool fixed)
{
    size_t few = few_rows(hashing, causal), rows = size_sum(num_queries, num_keys);
    *tables =
        (struct tables){.hashing = *hashing, .workers = workers, .buckets = (size_t)1 << hashing->hash_bits};
    tables->means = causal || hashing->hash_bits > PARTNER_BITS ? BY_BUCKETS : BY_PARTNERS;
    if (rows < few) {
        lay_out_few(tables, arena, num_queries, num_keys, dim);
        return;
    }
    /* At least the memory of fewer rows: sizes never fall. */
    struct arena all = arena_on(NULL), least = arena_on(NULL);
    lay_out_few(tables, &least, size_min(num_queries, few), size_min(num_keys, few), dim);
    tables->means = BY_TABLES;
    lay_out_tables(tables, &all, rows, dim);
    struct arena own = arena_on(arena_take(arena, size_max(all.used, least.used), 1));
    lay_out_tables(tables, &own, rows, dim);
    if (fixed)
        fixed_values_init(&tables->fixed, arena, hashing, num_keys, dim, workers);
}

/* ---- passes -------------------------------------------------------------------------------------------- */

/* The rows to sum, and how the work is split. */
struct sums {
    const struct kernels *kernels;
    const struct tables *tables;
    const struct table_sums *rows;
    bool fixed;          /* 16-bit tables of tables->fixed instead of values; out holds integers */
    size_t first, count; /* hashes of this pass */
    size_t begin, end;   /* columns of this pass */
    size_t slice;        /* columns per thread, or per table */
};

static const struct codes *giving(const struct sums *sums)
{
    return sums->rows->to_queries ? sums->rows->keys : sums->rows->queries;
}

static const struct codes *receiving(const struct sums *sums)
{
    return sums->rows->to_queries ? sums->rows->queries : sums->rows->keys;
}

/* Numbers that the memory of a thread holds. */
static size_t capacity_of_thread(const struct sums *sums)
{
    return sums->tables->capacity * (sums->fixed ? sizeof(float) / sizeof(int16_t) : 1);
}

/* Columns of the narrowest slice: a cache line. */
static size_t line_of(const struct sums *sums)
{
    return sums->fixed ? FIXED_BLOCK : SLICE;
}

/* Columns of a table's row for `width` columns of values. */
static size_t row_of_table(const struct sums *sums, size_t width)
{
    return sums->fixed ? fixed_values_width(width) : width;
}

static void clear_and_add(const struct sums *sums, void *table, size_t first, size_t count, size_t c,
                          size_t width)
{
    const struct codes *from = giving(sums);
    const struct tables *tables = sums->tables;
    const struct table_hashes hashes = codes_hashes(from, 0, first, count, tables->buckets);
    size_t row = row_of_table(sums, width), numbers = count * tables->buckets * row;
    if (sums->fixed) {
        memset(table, 0, numbers * sizeof(int16_t));
        sums->kernels->tables.fixed_add(table, row, &hashes, tables->fixed.rounded + c, tables->fixed.width,
                                        from->n);
        return;
    }
    memset(table, 0, numbers * sizeof(float));
    sums->kernels->tables.add(table, &hashes, sums->rows->values + c, sums->rows->ld_values, from->n, width);
}

/* Reads into rows [row, row + rows) of the receiving side. */
static void read(const struct sums *sums, const void *table, size_t first, size_t count, size_t c,
                 size_t width, size_t row, size_t rows)
{
    const struct table_hashes hashes =
        codes_hashes(receiving(sums), row, first, count, sums->tables->buckets);
    size_t ld_out = sums->rows->ld_out;
    float *out = sums->rows->out + row * ld_out + c;
    if (sums->fixed)
        sums->kernels->tables.fixed_read((int32_t *)(void *)out, ld_out, table, row_of_table(sums, width),
                                         &hashes, rows, width);
    else
        sums->kernels->tables.read(out, ld_out, table, &hashes, rows, width);
}

static void sum_causal(const struct sums *sums, float *table, size_t first, size_t count, size_t c,
                       size_t width)
{
    const struct causal_pass pass = {
        .queries = sums->rows->queries,
        .keys = sums->rows->keys,
        .visible = sums->tables->visible,
        .table = table,
        .buckets = sums->tables->buckets,
        .first = first,
        .count = count,
        .dim = width,
        .values = sums->rows->values + c,
        .out = sums->rows->out + c,
        .ld_values = sums->rows->ld_values,
        .ld_out = sums->rows->ld_out,
    };
    memset(table, 0, count * sums->tables->buckets * width * sizeof *table);
    if (sums->rows->to_queries)
        causal_keys_to_queries(sums->kernels, &pass);
    else
        causal_queries_to_keys(sums->kernels, &pass);
}

/* Carries columns [c, end) through the hashes of the pass, on one thread in its own memory. */
static void sum_columns(const struct sums *sums, size_t c, size_t end, float *table)
{
    const struct tables *tables = sums->tables;
    size_t line = line_of(sums), capacity = capacity_of_thread(sums), most = capacity / tables->buckets;
    size_t widest = sums->fixed ? tables->fixed_columns : SLICE_COLUMNS;
    size_t columns = size_min(size_min(end - c, widest), most);
    if (columns > line && (columns < end - c || row_of_table(sums, columns) > most))
        columns -= columns % line;
    size_t at_once = size_min(sums->count, capacity / (tables->buckets * row_of_table(sums, columns)));
    for (size_t hash = 0; hash < sums->count; hash += at_once)
        for (size_t from = c; from < end; from += columns) {
            size_t width = size_min(columns, end - from), count = size_min(at_once, sums->count - hash);
            if (tables->visible != NULL) {
                sum_causal(sums, table, sums->first + hash, count, from, width);
                continue;
            }
            clear_and_add(sums, table, sums->first + hash, count, from, width);
            read(sums, table, sums->first + hash, count, from, width, 0, receiving(sums)->n);
        }
}

static void sum_slice(void *argument, size_t index, int worker)
{
    const struct sums *sums = argument;
    size_t c = index * sums->slice;
    sum_columns(sums, c, size_min(sums->rows->dim, c + sums->slice),
                sums->tables->table + (size_t)worker * sums->tables->capacity);
}

/* ---- more threads than slices -------------------------------------------------------------------------- */

/* Threads share all their memory: they fill tables of different hashes and slices in parallel, then blocks
   of rows read all tables. */
static void *table_of(const struct sums *sums, size_t slice, size_t hash)
{
    size_t number = sums->fixed ? sizeof(int16_t) : sizeof(float);
    return (char *)sums->tables->table +
           (slice * sums->count + hash) * sums->tables->buckets * row_of_table(sums, sums->slice) * number;
}

/* Number of columns of the slice; *c: its first column. */
static size_t width_of(const struct sums *sums, size_t slice, size_t *c)
{
    *c = sums->begin + slice * sums->slice;
    return size_min(sums->slice, sums->end - *c);
}

static void fill_table(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct sums *sums = argument;
    size_t slice = index / sums->count, hash = index % sums->count, c, width = width_of(sums, slice, &c);
    clear_and_add(sums, table_of(sums, slice, hash), sums->first + hash, 1, c, width);
}

static void read_block(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct sums *sums = argument;
    size_t row = index * READ_ROWS, rows = size_min(READ_ROWS, receiving(sums)->n - row), c;
    for (size_t slice = 0; sums->begin + slice * sums->slice < sums->end; slice++) {
        size_t width = width_of(sums, slice, &c);
        /* Tables of a narrow last slice are not adjacent. */
        size_t at_once = width == sums->slice ? sums->count : 1;
        for (size_t hash = 0; hash < sums->count; hash += at_once)
            read(sums, table_of(sums, slice, hash), sums->first + hash, at_once, c, width, row, rows);
    }
}

static void sum_together(struct pool *pool, struct sums *sums)
{
    const struct tables *tables = sums->tables;
    size_t rows = capacity_of_thread(sums) * tables->workers / tables->buckets,
           num_hashes = tables->hashing.num_hashes, line = line_of(sums);
    size_t blocks = in_blocks(receiving(sums)->n);
    size_t columns = rows >= row_of_table(sums, sums->rows->dim) ? sums->rows->dim : rows - rows % line;
    for (; sums->begin < sums->rows->dim; sums->begin = sums->end) {
        sums->end = size_min(sums->rows->dim, sums->begin + columns);
        /* Use slices only if tables of whole rows would be too few for the threads. */
        bool whole = size_min(num_hashes, rows / columns) >= 2 * tables->workers;
        sums->slice = size_min(whole ? columns : line, sums->end - sums->begin);
        size_t slices = (sums->end - sums->begin + sums->slice - 1) / sums->slice;
        for (sums->first = 0; sums->first < num_hashes; sums->first += sums->count) {
            sums->count = size_min(size_max(rows / (slices * row_of_table(sums, sums->slice)), 1),
                                   num_hashes - sums->first);
            pool_run(pool, fill_table, sums, slices * sums->count);
            pool_run(pool, read_block, sums, blocks);
        }
    }
}

/* ---- buckets instead of tables ------------------------------------------------------------------------- */

static void sum_part(void *argument, const struct buckets *buckets, size_t hash, size_t first, size_t end,
                     int worker)
{
    (void)hash, (void)worker;
    const struct sums *sums = argument;
    sums->kernels->pairs.bucket_sums(&(struct bucket_sums){
        .buckets = buckets->list + first,
        .count = end - first,
        .queries = buckets->queries,
        .keys = buckets->keys,
        .visible = sums->tables->visible,
        .to_queries = sums->rows->to_queries,
        .values = sums->rows->values,
        .out = sums->rows->out,
        .ld_values = sums->rows->ld_values,
        .ld_out = sums->rows->ld_out,
        .dim = sums->rows->dim,
    });
}

/* Columns per thread, if they can be split with little idle time; else 0. */
static size_t slice_for(const struct sums *sums, size_t workers)
{
    size_t line = line_of(sums), lines = (sums->rows->dim + line - 1) / line,
           each = (lines + workers - 1) / workers;
    return 4 * each * workers <= 5 * lines ? each * line : 0;
}

static void carry_by_tables(struct sums *sums, struct pool *pool)
{
    size_t workers = pool == NULL ? 1 : sums->tables->workers;
    sums->slice = slice_for(sums, workers);
    /* Causal reads depend on the order of the rows, so they cannot run in parallel. */
    bool together = sums->slice == 0 && sums->tables->visible == NULL;
    sums->slice = sums->slice == 0 ? SLICE : sums->slice;
    if (together)
        sum_together(pool, sums);
    else
        pool_run(pool, sum_slice, sums, (sums->rows->dim + sums->slice - 1) / sums->slice);
}

void tables_sum(const struct kernels *kernels, struct pool *pool, struct tables *tables,
                const struct table_sums *rows)
{
    struct sums sums = {
        .kernels = kernels, .tables = tables, .rows = rows, .count = tables->hashing.num_hashes};
    const struct hash_list all = {NULL, rows->queries->num_hashes};
    if (tables->means == BY_PARTNERS)
        partner_tables_sum(kernels, pool, &tables->partners, rows);
    else if (tables->means == BY_BUCKETS)
        bucket_walk_run(&tables->walk, pool, bucket_walk_parts(pool), rows->queries, rows->keys, &all,
                        sum_part, &sums);
    else
        carry_by_tables(&sums, pool);
}

/* ---- in 16-bit numbers --------------------------------------------------------------------------------- */

struct finishing {
    const struct sums *sums;
    float step;
};

/* From integers to multiples of the step. */
static void finish_block(void *argument, size_t block, int worker)
{
    (void)worker;
    const struct finishing *finishing = argument;
    const struct sums *sums = finishing->sums;
    size_t first = block * READ_ROWS;
    sums->kernels->tables.fixed_finish(sums->rows->out + first * sums->rows->ld_out, sums->rows->ld_out,
                                       size_min(READ_ROWS, sums->rows->queries->n - first), sums->rows->dim,
                                       finishing->step);
}

bool tables_sum_fixed(const struct kernels *kernels, struct pool *pool, struct tables *tables,
                      const struct table_sums *rows)
{
    struct sums sums = {.kernels = kernels,
                        .tables = tables,
                        .rows = rows,
                        .fixed = true,
                        .count = tables->hashing.num_hashes};
    struct finishing finishing = {.sums = &sums};
    if (tables->fixed.rounded == NULL || tables->visible != NULL || rows->dim < FIXED_BLOCK ||
        rows->keys->n == 0 || rows->keys->wide ||
        !fixed_values_round(kernels, pool, &tables->fixed, rows->keys, rows->values, rows->ld_values,
                            rows->dim, &finishing.step))
        return false;
    carry_by_tables(&sums, pool);
    pool_run(pool, finish_block, &finishing, in_blocks(rows->queries->n));
    return true;
}
