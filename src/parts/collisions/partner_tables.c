/* One hash at a time: its rows with partners are found, a table with a row per shared code is cleared, the
   giving rows are added and the receiving rows read. Rows without a partner cost only the search, and the
   table is short: at one row per two codes 0.15 rows per code, 20 KiB at tau 9 and dim 64.
   Threads split the columns. Each searches by itself, because a search takes less than waking a thread.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/partner_tables.h"

#include <string.h>

enum {
    MOST_FLOATS = 64 * 1024, /* a quarter of an L2 of 1 MiB */
    SLICE = 16,              /* the narrowest slice of columns: one cache line */
};

void partner_tables_init(struct partner_tables *tables, struct arena *arena, const struct hashing *hashing,
                         size_t num_queries, size_t num_keys, size_t dim, size_t workers)
{
    size_t codes = size_min((size_t)1 << hashing->hash_bits, size_min(num_queries, num_keys));
    *tables = (struct partner_tables){.hashing = *hashing, .workers = workers};
    code_columns_init(&tables->query_columns, arena, hashing, num_queries);
    code_columns_init(&tables->key_columns, arena, hashing, num_keys);
    size_t slice = size_product(codes, size_min(dim, SLICE));
    tables->capacity = size_min(size_product(codes, dim), size_max(slice, MOST_FLOATS));
    tables->partners = arena_take(arena, workers, sizeof *tables->partners);
    tables->table = arena_take(arena, size_product(workers, tables->capacity), sizeof *tables->table);
    struct partners unused;
    for (size_t w = 0; w < workers; w++)
        partners_init(tables->partners == NULL ? &unused : &tables->partners[w], arena, hashing->hash_bits,
                      num_queries, num_keys);
}

struct work {
    const struct kernels *kernels;
    const struct partner_tables *tables;
    const struct table_sums *sums;
    size_t first, count; /* hashes whose codes are in the columns */
    size_t slice;        /* columns of a unit of work */
};

/* Columns [c, end) of one hash. */
static void sum_hash(const struct work *work, const struct partners *partners, float *table, size_t c,
                     size_t end)
{
    const struct table_sums *sums = work->sums;
    const struct partner_rows *from = sums->to_queries ? &partners->keys : &partners->queries,
                              *to = sums->to_queries ? &partners->queries : &partners->keys;
    size_t codes = partners->num_codes, columns = end - c;
    if (codes == 0)
        return;
    if (codes * columns > work->tables->capacity)
        columns = work->tables->capacity / codes / SLICE * SLICE;
    for (size_t width; c < end; c += width) {
        width = size_min(columns, end - c);
        memset(table, 0, codes * width * sizeof *table);
        work->kernels->tables.add_rows(table, from->numbers, from->rows, from->count, sums->values + c,
                                       sums->ld_values, width);
        work->kernels->tables.read_rows(sums->out + c, sums->ld_out, table, to->numbers, to->rows, to->count,
                                        width);
    }
}

static void sum_slice(void *argument, size_t index, int worker)
{
    const struct work *work = argument;
    const struct partner_tables *tables = work->tables;
    struct partners *partners = &tables->partners[worker];
    float *table = tables->table + (size_t)worker * tables->capacity;
    size_t c = index * work->slice, end = size_min(c + work->slice, work->sums->dim);
    for (size_t hash = work->first; hash < work->first + work->count; hash++) {
        partners_find(partners, tables->hashing.hash_bits, code_column(&tables->query_columns, hash),
                      work->sums->queries->n, code_column(&tables->key_columns, hash), work->sums->keys->n);
        sum_hash(work, partners, table, c, end);
    }
}

void partner_tables_sum(const struct kernels *kernels, struct pool *pool, struct partner_tables *tables,
                        const struct table_sums *sums)
{
    struct work work = {.kernels = kernels, .tables = tables, .sums = sums};
    size_t num_hashes = tables->hashing.num_hashes, slices = pool == NULL ? 1 : tables->workers;
    size_t lines = (sums->dim + SLICE - 1) / SLICE;
    work.slice = (lines + slices - 1) / slices * SLICE;
    slices = (sums->dim + work.slice - 1) / work.slice;
    for (; work.first < num_hashes; work.first += CODE_COLUMNS) {
        work.count = size_min(CODE_COLUMNS, num_hashes - work.first);
        code_columns_take(&tables->query_columns, sums->queries, work.first);
        code_columns_take(&tables->key_columns, sums->keys, work.first);
        pool_run(pool, sum_slice, &work, slices);
    }
}
