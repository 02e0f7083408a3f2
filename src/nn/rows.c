/* Spans by bisection, chunks, and the ordered sum of partial gradients.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/rows.h"

#include <assert.h>

/* The fewest rows of a lower tile, because each tile reads every weight. */
enum { LEAST_ROWS = 32 };

struct rows rows_of(const struct kernels *kernels, struct pool *pool, size_t num_sequences,
                    const size_t *offsets, const uint64_t *sample_ids)
{
    size_t count = offsets[num_sequences];
    return (struct rows){.kernels = kernels,
                         .pool = pool,
                         .num_sequences = num_sequences,
                         .offsets = offsets,
                         .sample_ids = sample_ids,
                         .count = count,
                         .padded = rows_padded(count),
                         .tile_rows = ROW_TILE,
                         .tiles = (count + ROW_TILE - 1) / ROW_TILE};
}

void rows_share(struct rows *rows)
{
    size_t threads = (size_t)pool_threads(rows->pool), rounds = (rows->tiles + threads - 1) / threads;
    rows->shared = true;
    if (rows->tiles == 0)
        return;
    size_t share = (rows->padded + rounds * threads - 1) / (rounds * threads);
    if (rows->tiles == 1 && share < LEAST_ROWS)
        return;
    rows->tile_rows = size_min(size_max(rows_padded(share), LEAST_ROWS), ROW_TILE);
    rows->tiles = (rows->padded + rows->tile_rows - 1) / rows->tile_rows;
}

static struct span span_at(const struct rows *rows, size_t sequence, size_t row, size_t end)
{
    struct span span = {.sequence = sequence, .row = row, .end = end};
    if (row >= end)
        return span; /* count 0 ends the walk */
    while (rows->offsets[span.sequence + 1] <= row)
        span.sequence++;
    size_t stop = rows->offsets[span.sequence + 1];
    span.position = row - rows->offsets[span.sequence];
    if (rows->cut != NULL)
        span.position += rows->cut->starts[span.sequence];
    span.count = (stop < end ? stop : end) - row;
    return span;
}

struct span rows_span(const struct rows *rows, size_t first, size_t n)
{
    size_t end = first + n < rows->count ? first + n : rows->count;
    /* Finds the last sequence that begins at or before `first`. */
    size_t low = 0, high = rows->num_sequences;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (rows->offsets[middle] <= first)
            low = middle;
        else
            high = middle;
    }
    return span_at(rows, low, first, end);
}

struct span rows_next(const struct rows *rows, struct span span)
{
    return span_at(rows, span.sequence, span.row + span.count, span.end);
}

size_t rows_chunks(size_t tiles, size_t width)
{
    enum { LEAST = 8, MOST = 32, BUDGET = 1 << 24 }; /* 64 MiB of floats */
    size_t chunks = width == 0 ? MOST : BUDGET / width;
    chunks = chunks < LEAST ? LEAST : chunks > MOST ? MOST : chunks;
    return chunks < tiles ? chunks : tiles;
}

void rows_chunk(size_t tiles, size_t chunks, size_t chunk, size_t *first, size_t *end)
{
    assert(chunk < chunks);
    *first = chunk * tiles / chunks;
    *end = (chunk + 1) * tiles / chunks;
}

enum { REDUCE_FLOATS = 4096 };

struct reduction {
    const struct kernels *kernels;
    float *into;
    const float *partials;
    size_t chunks, width;
};

static void reduce(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct reduction *r = argument;
    size_t first = index * REDUCE_FLOATS, left = r->width - first;
    for (size_t chunk = 0; chunk < r->chunks; chunk++)
        r->kernels->rows.axpy(r->into + first, 1.0f, r->partials + chunk * r->width + first,
                              left < REDUCE_FLOATS ? left : REDUCE_FLOATS);
}

void rows_reduce(const struct rows *rows, float *into, const float *partials, size_t chunks, size_t width)
{
    struct reduction r = {rows->kernels, into, partials, chunks, width};
    pool_run(rows->pool, reduce, &r, (width + REDUCE_FLOATS - 1) / REDUCE_FLOATS);
}
