/* How work over the packed rows of a batch is cut. Rows of all sequences stand one after another; layers
   compute them in tiles of ROW_TILE rows, every tile full: arrays of activations are `padded` rows long and
   the rows after the last token are zeros that no gradient flows through. So every product has one shape; and
   since the tile is a multiple of every height of a register block that product libraries use (4, 6, 8, 16,
   24, 48), no row falls into a remainder that is summed in another order: a row gets the same bits wherever
   it stands, hence a sequence the same output alone and packed.
   Sums over rows (gradients of weights) are made per chunk of neighbouring tiles and added in the order of
   the chunks; the number of chunks depends on shapes alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_ROWS_H
#define NN_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "kernels/kernels.h"
#include "nn/profile.h"

enum { ROW_TILE = 192 };

/* Whoever wants to look into buckets (attention_inspect): told of every call of attention in a forward whose
   mechanism has them, in block `layer`, once it is done. */
struct attention_call;
struct inspector {
    void (*see)(void *argument, size_t layer, const struct attention_call *call, void *saved, void *scratch);
    void *argument;
};

/* The batch as the layers see it. */
struct rows {
    const struct kernels *kernels;
    struct pool *pool;
    size_t num_sequences;
    const size_t *offsets;       /* (num_sequences + 1): sequence s has rows offsets[s] .. offsets[s + 1) */
    const uint64_t *sample_ids;  /* (num_sequences), part of the keys of dropout; may be NULL where there is
                                    none */
    size_t count, tiles, padded; /* rows; tiles of ROW_TILE; tiles * ROW_TILE */
    struct profile *profile;     /* or NULL; set by whoever has one */
    const struct inspector *inspector; /* or NULL; likewise */
    size_t layer;                      /* that mixes now, for the inspector */
};
struct rows rows_of(const struct kernels *kernels, struct pool *pool, size_t num_sequences,
                    const size_t *offsets, const uint64_t *sample_ids);

/* A run of rows of one sequence inside a stretch of packed rows. Walk a stretch [first, first + n) with
   for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)): every row below
   rows->count comes once, in order; rows after the last token belong to no span. */
struct span {
    size_t sequence, position; /* of its first row: which sequence, and the place in it */
    size_t row, count;         /* its first packed row, and how many */
    size_t end;                /* of the stretch */
};
struct span rows_span(const struct rows *rows, size_t first, size_t n);
struct span rows_next(const struct rows *rows, struct span span);

/* Partial sums of `width` floats, one per chunk of tiles. Few enough that they fit a budget of memory, never
   fewer than 8 unless there are fewer tiles, at most 32. */
size_t rows_chunks(size_t tiles, size_t width);
/* The tiles [*first, *end) of a chunk. */
void rows_chunk(size_t tiles, size_t chunks, size_t chunk, size_t *first, size_t *end);
/* into[i] += partials[0][i] + partials[1][i] + ..., added one after another. */
void rows_reduce(const struct rows *rows, float *into, const float *partials, size_t chunks, size_t width);

#endif
