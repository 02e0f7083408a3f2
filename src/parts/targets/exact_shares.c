/* Strips of queries, each over all chunks of keys.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/exact_shares.h"

#include <math.h>
#include <string.h>

#include "parts/targets/utility_blocks.h"
#include "parts/tiles/softmax_rows.h"
#include "parts/tiles/tile_products.h"

enum {
    STRIP = 64,     /* queries at a time */
    TILE = 64,      /* keys of a tile, whose sums fit in the first-level cache */
    CHUNK = 512,    /* keys of one unit of work */
    LD = CHUNK + 16 /* from one query's exponentials to the next: an odd number of cache lines */
};

struct memory {
    float *key_columns;      /* (tiles, d, TILE): the keys, transposed tile by tile */
    float *psi_query;        /* (n_q, B) */
    float *psi_key;          /* (tiles, B, TILE) */
    float *max, *sum;        /* (n_q): of all keys; sum is that of exponentials below max */
    float *largest, *factor; /* (n_q), with spans: the maximum of all, and this one's factor */
    /* of one chunk, for the queries of a strip */
    float *exponentials;          /* (STRIP, LD), below the maximum of the chunk */
    float *chunk_max, *chunk_sum; /* (STRIP) */
    float *chunk_psi;             /* (B, STRIP) */
    /* of one worker */
    float *tile; /* (TILE, STRIP), (STRIP, B) or (TILE, B) */
    size_t bytes;
};

static size_t chunks_of(const struct problem_shape *shape)
{
    return (shape->num_keys + CHUNK - 1) / CHUNK;
}

static struct memory memory_on(const struct problem_shape *shape, const struct utility *u, void *block,
                               size_t chunk, size_t worker)
{
    struct memory m;
    struct arena arena = arena_on(block), own;
    size_t n_q = shape->num_queries, spans_q = u->across == NULL ? 0 : n_q, groups = u->num_groups,
           keys = whole_tiles(shape->num_keys, TILE), bytes = 0;
    m.key_columns = arena_take(&arena, size_product(keys, shape->head_dim), sizeof(float));
    m.psi_query = arena_take(&arena, size_product(n_q, groups), sizeof(float));
    m.psi_key = arena_take(&arena, size_product(keys, groups), sizeof(float));
    m.max = arena_take(&arena, n_q, sizeof(float));
    m.sum = arena_take(&arena, n_q, sizeof(float));
    m.largest = arena_take(&arena, spans_q, sizeof(float));
    m.factor = arena_take(&arena, spans_q, sizeof(float));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *chunks = pass == 0 ? NULL : arena_take(&arena, chunks_of(shape), bytes);
        own = arena_on(chunks == NULL ? NULL : chunks + chunk * bytes);
        m.exponentials = arena_take(&own, STRIP * LD, sizeof(float));
        m.chunk_max = arena_take(&own, STRIP, sizeof(float));
        m.chunk_sum = arena_take(&own, STRIP, sizeof(float));
        m.chunk_psi = arena_take(&own, size_product(groups, STRIP), sizeof(float));
        bytes = own.used;
    }
    size_t tile = size_product(size_max(STRIP, groups), size_max(TILE, STRIP));
    m.tile = arena_take(&arena, size_product(shape->workers, tile), sizeof(float));
    m.tile = m.tile == NULL ? NULL : m.tile + worker * tile;
    m.bytes = arena.used;
    return m;
}

size_t exact_shares_size(const struct problem_shape *shape, const struct utility *utility)
{
    return memory_on(shape, utility, NULL, 0, 0).bytes;
}

/* Queries first .. first + rows - 1 and all keys. */
struct strip {
    const struct problem *problem;
    const struct utility *utility;
    void *scratch;
    size_t first, rows;
    bool sums; /* the maxima, sums and psi of queries are not known yet */
};

static struct memory memory_of(const struct strip *strip, size_t chunk, size_t worker)
{
    return memory_on(&strip->problem->shape, strip->utility, strip->scratch, chunk, worker);
}

static size_t keys_of(const struct problem_shape *shape, size_t chunk)
{
    return size_min(CHUNK, shape->num_keys - chunk * CHUNK);
}

static void transpose_keys(void *argument, size_t chunk, int worker)
{
    const struct strip *strip = argument;
    const struct problem *problem = strip->problem;
    struct memory m = memory_of(strip, chunk, (size_t)worker);
    struct view key = problem->key;
    size_t end = chunk * CHUNK + keys_of(&problem->shape, chunk), d = problem->shape.head_dim;
    for (size_t j = chunk * CHUNK; j < end; j += TILE)
        problem->kernels->tiles.transpose(m.key_columns + j * d, TILE, view_row(key, j), key.stride,
                                          size_min(TILE, end - j), d);
}

/* ---- queries ------------------------------------------------------------------------------------------- */

/* chunk_psi[b] += the exponentials of the keys of group b. */
static void add_keys(const struct strip *strip, const struct memory *m, size_t first, size_t keys)
{
    const struct utility *u = strip->utility;
    const struct kernels *kernels = strip->problem->kernels;
    const uint32_t *start = u->key_groups.start + first, *group = u->key_groups.group;
    memset(m->chunk_psi, 0, u->num_groups * STRIP * sizeof(float));
    for (size_t tile = 0; tile < keys; tile += TILE) {
        size_t cols = size_min(TILE, keys - tile);
        kernels->tiles.transpose(m->tile, STRIP, m->exponentials + tile, LD, strip->rows, cols);
        for (size_t j = 0; j < cols; j++)
            for (size_t p = start[tile + j]; p < start[tile + j + 1]; p++)
                kernels->rows.axpy(m->chunk_psi + group[p] * STRIP, 1, m->tile + j * STRIP, strip->rows);
    }
}

static void weigh_chunk(void *argument, size_t chunk, int worker)
{
    const struct strip *strip = argument;
    const struct problem *problem = strip->problem;
    struct memory m = memory_of(strip, chunk, (size_t)worker);
    size_t first = chunk * CHUNK, keys = keys_of(&problem->shape, chunk), d = problem->shape.head_dim;
    struct view query = problem->query;
    float factor[STRIP];
    for (size_t j = 0; j < keys; j += TILE)
        problem->kernels->tiles.product(m.exponentials + j, LD, view_row(query, strip->first), query.stride,
                                        1, m.key_columns + (first + j) * d, TILE, strip->rows,
                                        size_min(TILE, keys - j), d, false);
    for (size_t i = 0; i < strip->rows; i++) {
        m.chunk_max[i] = SOFTMAX_ROWS_LEAST;
        m.chunk_sum[i] = 0;
    }
    problem->kernels->softmax.step(m.exponentials, LD, strip->rows, keys, score_scale(d), m.chunk_max,
                                   m.chunk_sum, factor);
    if (strip->sums)
        add_keys(strip, &m, first, keys);
}

/* factor[i] = exp((chunk_max[i] - max[i]) / sqrt(d)) */
static void chunk_factors(const struct strip *strip, const struct memory *m, float *factor)
{
    float scale = score_scale(strip->problem->shape.head_dim);
    for (size_t i = 0; i < strip->rows; i++)
        factor[i] = expf(scale * (m->chunk_max[i] - m->max[strip->first + i]));
}

/* The maxima, sums and psi of the queries from those of the chunks. */
static void merge_chunks(const struct strip *strip)
{
    const struct kernels *kernels = strip->problem->kernels;
    size_t rows = strip->rows, groups = strip->utility->num_groups,
           chunks = chunks_of(&strip->problem->shape);
    struct memory m = memory_of(strip, 0, 0);
    float factor[STRIP], *max = m.max + strip->first, *sum = m.sum + strip->first,
                         *psi = m.psi_query + strip->first * groups;
    for (size_t i = 0; i < rows; i++) {
        max[i] = SOFTMAX_ROWS_LEAST;
        sum[i] = 0;
    }
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        m = memory_of(strip, chunk, 0);
        for (size_t i = 0; i < rows; i++)
            max[i] = m.chunk_max[i] > max[i] ? m.chunk_max[i] : max[i];
    }
    memset(psi, 0, rows * groups * sizeof *psi);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        m = memory_of(strip, chunk, 0);
        chunk_factors(strip, &m, factor);
        for (size_t i = 0; i < rows; i++)
            sum[i] += factor[i] * m.chunk_sum[i];
        kernels->tiles.transpose(m.tile, groups, m.chunk_psi, STRIP, groups, rows);
        kernels->rows.scale(m.tile, groups, factor, rows, groups);
        kernels->rows.axpy(psi, 1, m.tile, rows * groups);
    }
}

/* The same of the keys of all spans. */
static void merge_spans(const struct problem *problem, const struct utility *u, const struct memory *m)
{
    size_t n = problem->shape.num_queries, groups = u->num_groups;
    float scale = score_scale(problem->shape.head_dim);
    memcpy(m->largest, m->max, n * sizeof(float));
    u->across->largest(u->across->argument, m->largest, n);
    for (size_t i = 0; i < n; i++) {
        m->factor[i] = expf(scale * (m->max[i] - m->largest[i]));
        m->max[i] = m->largest[i];
    }
    problem->kernels->rows.multiply(m->sum, m->factor, n);
    problem->kernels->rows.scale(m->psi_query, groups, m->factor, n, groups);
    u->across->sum(u->across->argument, m->sum, n);
    u->across->sum(u->across->argument, m->psi_query, n * groups);
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

/* psi_key[b] += the shares of the queries of group b, times their weights. */
static void add_queries(void *argument, size_t chunk, int worker)
{
    const struct strip *strip = argument;
    const struct utility *u = strip->utility;
    const struct kernels *kernels = strip->problem->kernels;
    struct memory m = memory_of(strip, chunk, (size_t)worker);
    size_t first = chunk * CHUNK, keys = keys_of(&strip->problem->shape, chunk), groups = u->num_groups;
    const uint32_t *start = u->query_groups.start + strip->first, *group = u->query_groups.group;
    float share[STRIP]; /* of a query's attention, per exponential */
    chunk_factors(strip, &m, share);
    for (size_t i = 0; i < strip->rows; i++) {
        size_t query = strip->first + i;
        share[i] *= (u->query_weights == NULL ? 1 : u->query_weights[query]) / m.sum[query];
    }
    for (size_t tile = 0; tile < keys; tile += TILE) {
        float *psi = m.psi_key + (first + tile) * groups;
        for (size_t i = 0; i < strip->rows; i++)
            for (size_t p = start[i]; p < start[i + 1]; p++)
                kernels->rows.axpy(psi + group[p] * TILE, share[i], m.exponentials + i * LD + tile,
                                   size_min(TILE, keys - tile));
    }
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static void give_queries(const void *argument, size_t slot, size_t first, size_t end)
{
    const struct strip *all = argument;
    const struct utility *u = all->utility;
    struct memory m = memory_of(all, 0, 0);
    for (size_t i = first; i < end; i += UTILITY_ROWS)
        u->take(u->argument, UTILITY_QUERIES, i, size_min(UTILITY_ROWS, end - i),
                m.psi_query + i * u->num_groups, slot);
}

static void give_keys(const void *argument, size_t slot, size_t first, size_t end)
{
    const struct strip *all = argument;
    const struct utility *u = all->utility;
    size_t groups = u->num_groups;
    struct memory m = memory_of(all, 0, slot);
    for (size_t j = first; j < end; j += TILE) {
        size_t count = size_min(TILE, end - j);
        all->problem->kernels->tiles.transpose(m.tile, groups, m.psi_key + j * groups, TILE, groups, count);
        u->take(u->argument, UTILITY_KEYS, j, count, m.tile, slot);
    }
}

static void close_block(void *argument, size_t slot)
{
    const struct strip *all = argument;
    all->utility->close(all->utility->argument, slot);
}

/* Calls `run` for all chunks of the strip. */
static void run_strip(struct strip *strip, size_t first, bool sums,
                      void (*run)(void *argument, size_t chunk, int worker))
{
    const struct problem *problem = strip->problem;
    strip->first = first;
    strip->rows = size_min(STRIP, problem->shape.num_queries - first);
    strip->sums = sums;
    pool_run(problem->pool, run, strip, chunks_of(&problem->shape));
}

void exact_shares(const struct problem *problem, const struct utility *u, void *scratch)
{
    const struct problem_shape *shape = &problem->shape;
    struct strip strip = {.problem = problem, .utility = u, .scratch = scratch};
    struct memory m = memory_of(&strip, 0, 0);
    bool spans = u->across != NULL;
    pool_run(problem->pool, transpose_keys, &strip, chunks_of(shape));
    memset(m.psi_key, 0, whole_tiles(shape->num_keys, TILE) * u->num_groups * sizeof(float));
    for (size_t first = 0; first < shape->num_queries; first += STRIP) {
        run_strip(&strip, first, true, weigh_chunk);
        merge_chunks(&strip);
        if (!spans)
            run_strip(&strip, first, true, add_queries);
    }
    if (spans)
        merge_spans(problem, u, &m);
    for (size_t first = 0; spans && first < shape->num_queries; first += STRIP) {
        run_strip(&strip, first, false, weigh_chunk);
        run_strip(&strip, first, false, add_queries);
    }
    utility_run_blocks(problem, spans ? u->across->first : 0, spans ? u->across->end : shape->num_queries,
                       &(struct utility_work){give_queries, close_block, &strip});
    utility_run_blocks(problem, 0, shape->num_keys, &(struct utility_work){give_keys, close_block, &strip});
}
