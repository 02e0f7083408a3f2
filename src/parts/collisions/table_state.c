/* Passes of as many hashes as fit L2, over a slice of columns. Units of work write to disjoint memory:
   adding is split by hashes and slices, reading by rows, and the scan, which goes token by token, by slices
   of columns. Adding is split four times finer than the cache requires, so that a thread delayed by the
   source still finds work. Cost: as hash_tables.c; every chunk moves all tables through the cache once, so
   chunks should have more rows than a table.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/table_state.h"

#include "base/memory.h"
#include "parts/collisions/causal_tables.h"

enum {
    PASS_FLOATS = 256 * 1024, /* as LONG_PASS and SLICE_COLUMNS of hash_tables.c, measured there */
    ADD_FLOATS = PASS_FLOATS / 4,
    SLICE = 32,
    READ_ROWS = 1024, /* queries per unit of work */
};

size_t table_state_floats(const struct hashing *hashing, size_t dim)
{
    return size_product(size_product(hashing->num_hashes, (size_t)1 << hashing->hash_bits), dim);
}

/* `width` columns, from `column`, of the tables of all hashes. */
struct slice {
    size_t column, width, buckets;
    float *tables; /* (num_hashes, buckets, width) */
};

static struct slice slice_at(const struct table_state *state, size_t index)
{
    size_t column = index * SLICE, buckets = (size_t)1 << state->hashing.hash_bits;
    return (struct slice){.column = column,
                          .width = size_min(SLICE, state->dim - column),
                          .buckets = buckets,
                          .tables = state->tables + state->hashing.num_hashes * buckets * column};
}

static size_t count_slices(const struct table_state *state)
{
    return (state->dim + SLICE - 1) / SLICE;
}

/* Hashes of a pass of `floats` over a slice of full width; and the number of passes. */
static size_t at_once(const struct table_state *state, size_t floats)
{
    size_t one = ((size_t)1 << state->hashing.hash_bits) * size_min(SLICE, state->dim);
    if (one == 0) /* no columns */
        return state->hashing.num_hashes;
    return one > floats ? 1 : size_min(state->hashing.num_hashes, floats / one);
}

static size_t count_passes(const struct table_state *state, size_t floats)
{
    size_t count = at_once(state, floats);
    return (state->hashing.num_hashes + count - 1) / count;
}

struct work {
    const struct kernels *kernels;
    const struct table_state *state;
    const struct table_rows *queries, *keys;
    const size_t *visible;
};

/* The hashes of one pass. */
struct hashes {
    size_t first, count;
    float *tables;
};

static struct hashes hashes_of(const struct table_state *state, const struct slice *slice, size_t floats,
                               size_t pass)
{
    size_t count = at_once(state, floats), first = pass * count;
    return (struct hashes){.first = first,
                           .count = size_min(count, state->hashing.num_hashes - first),
                           .tables = slice->tables + first * slice->buckets * slice->width};
}

static void add_keys(const struct work *work, const struct slice *slice, const struct hashes *hashes,
                     size_t first, size_t n)
{
    const struct table_rows *keys = work->keys;
    if (n == 0)
        return;
    const struct table_hashes own =
        codes_hashes(keys->codes, first, hashes->first, hashes->count, slice->buckets);
    work->kernels->tables.add(hashes->tables, &own, keys->values + first * keys->ld_values + slice->column,
                              keys->ld_values, n, slice->width);
}

static void add_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *work = argument;
    size_t passes = count_passes(work->state, ADD_FLOATS);
    struct slice slice = slice_at(work->state, index / passes);
    struct hashes hashes = hashes_of(work->state, &slice, ADD_FLOATS, index % passes);
    add_keys(work, &slice, &hashes, 0, work->keys->codes->n);
}

void table_state_add(const struct kernels *kernels, struct pool *pool, const struct table_state *state,
                     const struct table_rows *keys)
{
    struct work work = {.kernels = kernels, .state = state, .keys = keys};
    pool_run(pool, add_unit, &work, count_slices(state) * count_passes(state, ADD_FLOATS));
}

static void read_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *work = argument;
    const struct table_rows *queries = work->queries;
    const struct codes *codes = queries->codes;
    size_t first = index * READ_ROWS, n = size_min(READ_ROWS, codes->n - first);
    for (size_t s = 0; s < count_slices(work->state); s++) {
        struct slice slice = slice_at(work->state, s);
        for (size_t pass = 0; pass < count_passes(work->state, PASS_FLOATS); pass++) {
            struct hashes hashes = hashes_of(work->state, &slice, PASS_FLOATS, pass);
            const struct table_hashes own =
                codes_hashes(codes, first, hashes.first, hashes.count, slice.buckets);
            work->kernels->tables.read(queries->out + first * queries->ld_out + slice.column, queries->ld_out,
                                       hashes.tables, &own, n, slice.width);
        }
    }
}

void table_state_read(const struct kernels *kernels, struct pool *pool, const struct table_state *state,
                      const struct table_rows *queries)
{
    struct work work = {.kernels = kernels, .state = state, .queries = queries};
    pool_run(pool, read_unit, &work, (queries->codes->n + READ_ROWS - 1) / READ_ROWS);
}

static void scan_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *work = argument;
    const struct table_rows *queries = work->queries, *keys = work->keys;
    size_t n_q = queries->codes->n, seen = n_q == 0 ? 0 : work->visible[n_q - 1];
    struct slice slice = slice_at(work->state, index);
    for (size_t pass = 0; pass < count_passes(work->state, PASS_FLOATS); pass++) {
        struct hashes hashes = hashes_of(work->state, &slice, PASS_FLOATS, pass);
        const struct causal_pass scan = {
            .queries = queries->codes,
            .keys = keys->codes,
            .visible = work->visible,
            .table = hashes.tables,
            .buckets = slice.buckets,
            .first = hashes.first,
            .count = hashes.count,
            .dim = slice.width,
            .values = keys->codes->n == 0 ? NULL : keys->values + slice.column,
            .out = queries->out + slice.column,
            .ld_values = keys->ld_values,
            .ld_out = queries->ld_out,
        };
        causal_keys_to_queries(work->kernels, &scan);
        add_keys(work, &slice, &hashes, seen, keys->codes->n - seen);
    }
}

void table_state_scan(const struct kernels *kernels, struct pool *pool, const struct table_state *state,
                      const struct table_rows *queries, const struct table_rows *keys, const size_t *visible)
{
    struct work work = {
        .kernels = kernels, .state = state, .queries = queries, .keys = keys, .visible = visible};
    pool_run(pool, scan_unit, &work, count_slices(state));
}
