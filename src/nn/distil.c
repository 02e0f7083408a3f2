/* The convolution is a dense layer on rows that are gathered in threes, tile by tile. Its gradient is
   scattered the other way round: every row collects from the three that read it, so no two workers add to one
   row.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/distil.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { TAPS = 3 };

hashattn_status distil_describe(struct host *host, struct params *params, const char *name, size_t dim,
                                double norm_epsilon, struct distil *distil)
{
    char part[2 * PARAM_NAME];
    *distil = (struct distil){.dim = dim, .first = params->total};
    snprintf(part, sizeof part, "%s.convolution", name);
    TRY(dense_describe(host, params, part, TAPS * dim, dim, &distil->convolution));
    snprintf(part, sizeof part, "%s.LayerNorm", name);
    TRY(norm_describe(host, params, part, dim, norm_epsilon, &distil->norm));
    distil->end = params->total;
    return HASHATTN_OK;
}

static size_t halved_length(size_t n)
{
    return (n + 1) / 2;
}

void distil_offsets(size_t num_sequences, const size_t *offsets, size_t *halved)
{
    halved[0] = 0;
    for (size_t s = 0; s < num_sequences; s++)
        halved[s + 1] = halved[s] + halved_length(offsets[s + 1] - offsets[s]);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

struct space {
    float *normed;    /* (padded, dim) z */
    float *convolved; /* (padded, dim) before the norm; NULL in evaluation */
    float *tiles;     /* (threads) scratch */
    size_t tile_floats;
    float *dgathered; /* (padded, 3 dim); backward */
    float *partials;
    size_t bytes;
};

static struct space space_on(const struct distil *distil, const struct distil_pass *pass)
{
    const struct rows *rows = &pass->rows;
    struct arena arena = arena_on(pass->memory);
    size_t narrow = size_product(rows->padded, distil->dim), count = distil->end - distil->first;
    struct space s = {.normed = arena_take(&arena, narrow, sizeof(float))};
    s.tile_floats = size_product(ROW_TILE, size_sum(size_product(TAPS + 3, distil->dim), 2));
    s.tiles =
        arena_take(&arena, size_product((size_t)pool_threads(rows->pool), s.tile_floats), sizeof(float));
    if (pass->training) {
        s.convolved = arena_take(&arena, narrow, sizeof(float));
        s.dgathered = arena_take(&arena, size_product(TAPS, narrow), sizeof(float));
        s.partials = arena_take(&arena, size_product(rows_chunks(rows->tiles, count), count), sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

size_t distil_memory_size(const struct distil *distil, const struct distil_pass *pass)
{
    struct distil_pass sizes = *pass;
    sizes.memory = NULL;
    return space_on(distil, &sizes).bytes;
}

/* Scratch of one worker for a tile. */
struct scratch {
    float *gathered;         /* (ROW_TILE, 3 dim) */
    float *narrow, *dz, *dc; /* (ROW_TILE, dim) */
    float *statistics;       /* (ROW_TILE, 2) */
    struct watch *watch;
};

/* One forward or backward pass; the argument of every unit of work. */
struct run {
    const struct distil *distil;
    const struct distil_pass *pass;
    struct space space;
    const float *x, *dy;
    float *y, *dx;
    size_t chunks;
};

static struct scratch scratch_of(const struct run *run, int worker)
{
    float *at = run->space.tiles + (size_t)worker * run->space.tile_floats;
    size_t narrow = ROW_TILE * run->distil->dim;
    return (struct scratch){.gathered = at,
                            .narrow = at + TAPS * narrow,
                            .dz = at + (TAPS + 1) * narrow,
                            .dc = at + (TAPS + 2) * narrow,
                            .statistics = at + (TAPS + 3) * narrow,
                            .watch = profile_watch(run->pass->rows.profile, worker)};
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* The rows before and after a row of a sequence, in a circle. */
static void neighbours(const struct rows *rows, const struct span *span, size_t i, size_t *before,
                       size_t *after)
{
    size_t row = span->row + i, first = rows->offsets[span->sequence],
           last = rows->offsets[span->sequence + 1] - 1;
    *before = row == first ? last : row - 1;
    *after = row == last ? first : row + 1;
}

/* gathered (rows of the tile, 3 dim); zeros after the last row. */
static void gather(const struct run *run, float *gathered, size_t first)
{
    const struct rows *rows = &run->pass->rows;
    size_t dim = run->distil->dim, bytes = dim * sizeof *gathered, n = rows_of_tile(rows, first), done = 0;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s))
        for (size_t i = 0; i < s.count; i++, done++) {
            size_t before, after;
            float *to = gathered + done * TAPS * dim;
            neighbours(rows, &s, i, &before, &after);
            memcpy(to, run->x + before * dim, bytes);
            memcpy(to + dim, run->x + (s.row + i) * dim, bytes);
            memcpy(to + 2 * dim, run->x + after * dim, bytes);
        }
    memset(gathered + done * TAPS * dim, 0, (n - done) * TAPS * bytes);
}

static void convolve_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct distil *distil = run->distil;
    const struct kernels *kernels = run->pass->rows.kernels;
    struct scratch scratch = scratch_of(run, worker);
    size_t first = tile * run->pass->rows.tile_rows, n = rows_of_tile(&run->pass->rows, first),
           at = first * distil->dim;
    float *convolved = run->pass->training ? run->space.convolved + at : scratch.narrow;
    gather(run, scratch.gathered, first);
    dense_forward(&distil->convolution, kernels, run->pass->values, convolved, scratch.gathered, n);
    watch_lap(scratch.watch, PROFILE_PRODUCTS);
    norm_forward(&distil->norm, kernels, run->pass->values, run->space.normed + at, scratch.statistics,
                 convolved, n);
    watch_lap(scratch.watch, PROFILE_NORM);
}

/* The rows [*first, *end) of a sequence of n rows whose maximum is row j of the halved one. */
static void window(size_t n, size_t j, size_t *first, size_t *end)
{
    *first = j == 0 ? 0 : 2 * j - 1;
    *end = size_min(2 * j + 2, n);
}

static void maximum_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct rows *rows = &run->pass->rows, *halved = &run->pass->halved;
    size_t dim = run->distil->dim, start = tile * halved->tile_rows, n = rows_of_tile(halved, start),
           done = 0;
    float *y = run->y + start * dim;
    for (struct span s = rows_span(halved, start, n); s.count > 0; s = rows_next(halved, s))
        for (size_t i = 0; i < s.count; i++, done++) {
            const float *z = run->space.normed + rows->offsets[s.sequence] * dim;
            float *best = y + done * dim;
            size_t first, end;
            window(rows_length(rows, s.sequence), s.position + i, &first, &end);
            memcpy(best, z + first * dim, dim * sizeof *best);
            for (size_t r = first + 1; r < end; r++)
                for (size_t c = 0; c < dim; c++)
                    best[c] = z[r * dim + c] > best[c] ? z[r * dim + c] : best[c];
        }
    rows->kernels->features.elu(y, dim, y, dim, done, dim); /* elu + 1 */
    for (size_t i = 0; i < done * dim; i++)
        y[i] -= 1;
    memset(y + done * dim, 0, (n - done) * dim * sizeof *y);
    watch_lap(profile_watch(rows->profile, worker), PROFILE_NORM);
}

void distil_forward(const struct distil *distil, const struct distil_pass *pass, float *y, const float *x)
{
    struct run run = {.distil = distil, .pass = pass, .space = space_on(distil, pass), .x = x, .y = y};
    assert(pass->rows.num_sequences == pass->halved.num_sequences && pass->rows.cut == NULL);
    pool_run(pass->rows.pool, convolve_tile, &run, pass->rows.tiles);
    pool_run(pass->rows.pool, maximum_tile, &run, pass->halved.tiles);
    profile_lap(pass->rows.profile, PROFILE_PRODUCTS);
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* Adds to dz, the gradient of row r of a sequence, what comes from row j of the halved one: in the columns
   where r is the first row with the maximum. z, y, dy: of the sequence. */
static void take_share(float *dz, const float *z, const float *y, const float *dy, size_t dim, size_t n,
                       size_t r, size_t j)
{
    size_t first, end;
    window(n, j, &first, &end);
    for (size_t c = 0; c < dim; c++) {
        float own = z[r * dim + c], out = y[j * dim + c];
        bool best = true;
        for (size_t k = first; k < end; k++)
            best = best && (k < r ? z[k * dim + c] < own : z[k * dim + c] <= own);
        if (best)
            dz[c] += dy[j * dim + c] * (out < 0 ? out + 1 : 1); /* the slope of elu */
    }
}

/* dz (rows of the tile, dim), zeros after the last row. */
static void maximum_back(const struct run *run, float *dz, size_t start)
{
    const struct rows *rows = &run->pass->rows, *halved = &run->pass->halved;
    size_t dim = run->distil->dim, tile = rows_of_tile(rows, start), done = 0;
    memset(dz, 0, tile * dim * sizeof *dz);
    for (struct span s = rows_span(rows, start, tile); s.count > 0; s = rows_next(rows, s)) {
        size_t n = rows_length(rows, s.sequence), at = rows->offsets[s.sequence] * dim,
               from = halved->offsets[s.sequence] * dim;
        for (size_t i = 0; i < s.count; i++, done++) {
            size_t r = s.position + i;
            take_share(dz + done * dim, run->space.normed + at, run->y + from, run->dy + from, dim, n, r,
                       r / 2);
            if (r % 2 == 1 && r + 1 < n)
                take_share(dz + done * dim, run->space.normed + at, run->y + from, run->dy + from, dim, n, r,
                           r / 2 + 1);
        }
    }
}

/* A chunk of tiles, in order, into a partial gradient of its own. */
static void chunk_back(void *argument, size_t chunk, int worker)
{
    const struct run *run = argument;
    const struct distil *distil = run->distil;
    const struct kernels *kernels = run->pass->rows.kernels;
    const float *values = run->pass->values;
    struct scratch scratch = scratch_of(run, worker);
    size_t count = distil->end - distil->first, dim = distil->dim, tile, end;
    struct slice gradients = {run->space.partials + chunk * count, distil->first};
    memset(gradients.floats, 0, count * sizeof(float));
    for (rows_chunk(run->pass->rows.tiles, run->chunks, chunk, &tile, &end); tile < end; tile++) {
        size_t first = tile * run->pass->rows.tile_rows, n = rows_of_tile(&run->pass->rows, first);
        const float *convolved = run->space.convolved + first * dim;
        maximum_back(run, scratch.dz, first);
        norm_forward(&distil->norm, kernels, values, scratch.narrow, scratch.statistics, convolved, n);
        memset(scratch.dc, 0, n * dim * sizeof(float));
        norm_backward(&distil->norm, kernels, values, gradients, scratch.dc, scratch.dz, convolved,
                      scratch.statistics, n);
        watch_lap(scratch.watch, PROFILE_NORM);
        gather(run, scratch.gathered, first);
        dense_backward(&distil->convolution, kernels, values, gradients,
                       run->space.dgathered + first * TAPS * dim, false, scratch.dc, scratch.gathered, n);
        watch_lap(scratch.watch, PROFILE_PRODUCTS);
    }
}

/* dx of a row: from itself, and from its neighbours, of which it is one. */
static void scatter_tile(void *argument, size_t tile, int worker)
{
    const struct run *run = argument;
    const struct rows *rows = &run->pass->rows;
    size_t dim = run->distil->dim, first = tile * rows->tile_rows, n = rows_of_tile(rows, first), done = 0;
    float *dx = run->dx + first * dim;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s))
        for (size_t i = 0; i < s.count; i++, done++) {
            size_t before, after;
            neighbours(rows, &s, i, &before, &after);
            const float *own = run->space.dgathered + ((s.row + i) * TAPS + 1) * dim,
                        *as_before = run->space.dgathered + after * TAPS * dim,
                        *as_after = run->space.dgathered + (before * TAPS + 2) * dim;
            for (size_t c = 0; c < dim; c++)
                dx[done * dim + c] = own[c] + as_before[c] + as_after[c];
        }
    memset(dx + done * dim, 0, (n - done) * dim * sizeof *dx);
    watch_lap(profile_watch(rows->profile, worker), PROFILE_SUMS);
}

void distil_backward(const struct distil *distil, const struct distil_pass *pass, float *gradients, float *dx,
                     const float *dy, const float *x, const float *y)
{
    const struct rows *rows = &pass->rows;
    struct run run = {
        .distil = distil, .pass = pass, .space = space_on(distil, pass), .x = x, .dy = dy, .dx = dx};
    size_t count = distil->end - distil->first;
    assert(pass->training);
    run.y = (float *)(uintptr_t)y; /* only read */
    run.chunks = rows_chunks(rows->tiles, count);
    pool_run(rows->pool, chunk_back, &run, run.chunks);
    rows_reduce(rows, gradients + distil->first, run.space.partials, run.chunks, count);
    pool_run(rows->pool, scatter_tile, &run, rows->tiles);
    profile_lap(rows->profile, PROFILE_SUMS);
}
