/* How work over the packed rows of a batch is cut. The rows of all sequences are contiguous. Layers compute
   them in tiles of ROW_TILE rows or fewer, of which the last ends at a multiple of ROW_STEP: arrays of
   activations are `padded` rows long, and the rows after the last token are zeros without gradient. Products
   with weights (kernels/product_weights.h) and our own tiles sum a row in one order, however many rows there
   are. A row therefore has the same bits at any index, and a sequence the same output alone and packed. In
   backward, a product library may sum the rows of a shorter tile in another order.
   Sums over rows (gradients of weights) are computed per chunk of neighbouring tiles and added in the order
   of the chunks, whose number only shapes determine.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_ROWS_H
#define NN_ROWS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"
#include "comm/row_ranks.h"
#include "kernels/kernels.h"
#include "nn/profile.h"

enum {
    ROW_TILE = 192, /* a multiple of the heights of register blocks in product libraries (4 to 48) */
    /* Divides ROW_TILE. A register block of fewer rows takes as long as one of 4. */
    ROW_STEP = 4
};

/* Observes attention. Called after every call of attention in a forward; `layer` is the index of the block.
   If the mechanism has buckets, attention_inspect may follow. */
struct attention_call;
struct inspector {
    void (*see)(void *argument, size_t layer, const struct attention_call *call);
    void *argument;
};

/* Told by a backward pass how far it is, always on the calling thread, so that gradients can be sent while
   others are computed. */
struct backward_listener {
    void (*known)(void *argument, size_t first); /* the pass adds nothing more to elements from `first` on */
    void (*tick)(void *argument);                /* between tiles; must be quick */
    void *argument;
};

/* The rows of each sequence that this rank holds, if ranks share sequences: one span of each, at least one
   row. */
struct rows_cut {
    struct row_ranks *ranks; /* more than one */
    const size_t *totals;    /* (num_sequences) rows of the whole sequence */
    const size_t *starts;    /* (num_sequences) index in it of the first row here */
};

/* The batch as the layers see it. */
struct rows {
    const struct kernels *kernels;
    struct pool *pool;
    size_t num_sequences;
    const size_t *offsets;      /* (num_sequences + 1): sequence s has rows offsets[s] .. offsets[s + 1) */
    const size_t *key_offsets;  /* those of keys and values in cross attention; NULL: the same rows */
    const uint64_t *sample_ids; /* (num_sequences), part of the keys of dropout; may be NULL without
                                   dropout */
    size_t count, padded;       /* rows; rows_padded(count) */
    size_t tile_rows, tiles;    /* of every tile but the last; how many */
    bool shared;                /* rows_share was called: the pass is forward only */
    struct profile *profile;    /* or NULL; set by callers that have one */
    const struct inspector *inspector; /* or NULL; set by callers that have one */
    size_t layer;                      /* index of the layer that mixes now, for the inspector */
    const struct rows_cut *cut; /* NULL: all rows of every sequence are here; set by callers that have one */
};
static inline size_t rows_padded(size_t count)
{
    return size_sum(count, ROW_STEP - 1) / ROW_STEP * ROW_STEP;
}
/* The rows of the tile that begins at row `first`. */
static inline size_t rows_of_tile(const struct rows *rows, size_t first)
{
    assert(first < rows->padded);
    return size_min(rows->tile_rows, rows->padded - first);
}
/* The threads for work inside a tile: all of them if there is one tile, else NULL. */
static inline struct pool *rows_tile_pool(const struct rows *rows)
{
    return rows->tiles == 1 ? rows->pool : NULL;
}
/* In tiles of ROW_TILE rows. */
struct rows rows_of(const struct kernels *kernels, struct pool *pool, size_t num_sequences,
                    const size_t *offsets, const uint64_t *sample_ids);

/* Lower tiles, so that threads get equally many; a batch too small for it keeps one tile, whose columns the
   threads share (rows_tile_pool). For forward passes alone: sums of gradients depend on the tiles. */
void rows_share(struct rows *rows);

/* Consecutive rows of one sequence inside a range of packed rows. To walk a range [first, first + n): for
   (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)). Every row below
   rows->count is visited once, in order; rows after the last token belong to no span. */
struct span {
    size_t sequence, position; /* of its first row: index of the sequence, index in the whole of it */
    size_t row, count;         /* its first packed row, number of rows */
    size_t end;                /* of the range */
};
struct span rows_span(const struct rows *rows, size_t first, size_t n);
struct span rows_next(const struct rows *rows, struct span span);

/* Rows of a sequence on all ranks. */
static inline size_t rows_length(const struct rows *rows, size_t sequence)
{
    return rows->cut != NULL ? rows->cut->totals[sequence]
                             : rows->offsets[sequence + 1] - rows->offsets[sequence];
}
/* The ranks that share the sequences; NULL: none. */
static inline struct row_ranks *rows_ranks(const struct rows *rows)
{
    return rows->cut == NULL ? NULL : rows->cut->ranks;
}

/* The number of partial sums of `width` floats, one per chunk of tiles: limited by a budget of memory, at
   least 8 (or the number of tiles), at most 32. */
size_t rows_chunks(size_t tiles, size_t width);
/* The tiles [*first, *end) of a chunk. */
void rows_chunk(size_t tiles, size_t chunks, size_t chunk, size_t *first, size_t *end);
/* into[i] += partials[0][i] + partials[1][i] + ..., added in this order. */
void rows_reduce(const struct rows *rows, float *into, const float *partials, size_t chunks, size_t width);

#endif
