/* Internals of tiled attention that forward and backward share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TILE_ATTENTION_PARTS_H
#define PARTS_TILE_ATTENTION_PARTS_H

#include <math.h>
#include <string.h>

#include "parts/tiles/double_attention.h"
#include "parts/tiles/tile_attention.h"

/* Measured on Zen 5 at n 4096, d 64, as a share of peak: tiles of 64 x 64 in groups half as large reach 71 %
   forward and 79 % backward, these 76 % and 83 %. Products are computed six rows at a time on every
   instruction set, so 96 leaves no remainder; longer rows of scores halve the cost of the running
   maximum. */
enum {
    BLOCK = TILE_ATTENTION_BLOCK,
    TILE = 128,               /* keys at a time */
    QUERY_GROUP = 10 * BLOCK, /* forward, maximum: at d 64, queries and their results are 480 KiB */
    KEY_GROUP = 4 * TILE,     /* backward: at d 64, five arrays of 128 KiB */
    ALIGNED = 16,             /* a product of part of a tile starts at a whole vector */
    STRIP = RELATIVE_STRIP,   /* at least BLOCK + TILE - 1 */
};

/* to (count, cols), adjacent, = rows[first .. first + count). */
static inline void copy_rows(float *to, struct view rows, size_t cols, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * cols, view_row(rows, first + i), cols * sizeof *to);
}

/* to (count, cols) = rows[first .. first + count) + bias. */
static inline void copy_biased(const struct kernels *kernels, float *to, struct view rows, size_t cols,
                               size_t first, size_t count, const float *bias)
{
    copy_rows(to, rows, cols, first, count);
    kernels->layers.add_bias(to, cols, bias, count, cols);
}

/* rows[first .. first + count) += from, whose rows are adjacent. */
static inline void add_rows(const struct kernels *kernels, struct view rows, size_t first, size_t count,
                            const float *from)
{
    for (size_t i = 0; i < count; i++)
        kernels->rows.axpy(view_row(rows, first + i), 1, from + i * rows.cols, rows.cols);
}

/* ---- which keys are seen ------------------------------------------------------------------------------- */

static inline struct sight sight_of(const struct tile_attention *a, size_t query)
{
    return a->sight == NULL ? (struct sight){0, a->sizes.num_keys} : a->sight(a->argument, query);
}

/* The part of the tile of at most `cols` keys at `tile` that any of queries first .. first + rows - 1 sees,
   relative to the tile and starting at a whole vector. */
static inline struct sight seen_of_tile(const struct tile_attention *a, size_t first, size_t rows,
                                        size_t tile, size_t cols)
{
    size_t begin = sight_of(a, first).first, end = sight_of(a, first + rows - 1).end;
    struct sight seen = {begin > tile ? (begin - tile) / ALIGNED * ALIGNED : 0,
                         end > tile ? size_min(cols, end - tile) : 0};
    return seen.first < seen.end ? seen : (struct sight){0, 0};
}

/* Sets unseen scores (rows, cols) of queries first .. and keys key .. to -inf. */
static inline void hide_unseen(const struct tile_attention *a, float *scores, size_t first, size_t rows,
                               size_t key, size_t cols)
{
    if (sight_of(a, first + rows - 1).first <= key && sight_of(a, first).end >= key + cols)
        return;
    for (size_t i = 0; i < rows; i++) {
        struct sight sight = sight_of(a, first + i);
        size_t begin = size_min(sight.first > key ? sight.first - key : 0, cols);
        size_t end = sight.end > key ? size_min(sight.end - key, cols) : 0;
        for (size_t j = 0; j < begin; j++)
            scores[i * TILE + j] = -INFINITY;
        for (size_t j = end; j < cols; j++)
            scores[i * TILE + j] = -INFINITY;
    }
}

/* to (rows, cols) += factor * from. */
static inline void add_scaled(const struct kernels *kernels, float *to, size_t ld_to, float factor,
                              const float *from, size_t ld_from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        kernels->rows.axpy(to + i * ld_to, factor, from + i * ld_from, cols);
}

/* Products and terms are divided by sqrt(d) later, so the bias of a tile of scores is multiplied by it. */
static inline void add_pair_bias(const struct tile_attention *a, float *scores, size_t first, size_t rows,
                                 size_t key, size_t cols)
{
    if (a->bias != NULL)
        add_scaled(a->kernels, scores, TILE, 1 / score_scale(a->sizes.dim),
                   a->bias + first * a->ld_bias + key, a->ld_bias, rows, cols);
}

/* The queries that see a key; all other queries have output 0 and no gradient. */
static inline struct sight seeing(const struct tile_attention *a)
{
    struct sight queries = {0, a->sizes.num_queries}, one;
    for (; queries.first < queries.end; queries.first++)
        if (one = sight_of(a, queries.first), one.first < one.end)
            break;
    for (; queries.first < queries.end; queries.end--)
        if (one = sight_of(a, queries.end - 1), one.first < one.end)
            break;
    return queries;
}

static inline bool seen_run(const void *argument, size_t query, size_t number, struct key_run *run)
{
    struct sight sight = sight_of(argument, query);
    *run = (struct key_run){.first = sight.first, .count = sight.end - sight.first, .step = 1};
    return number == 0;
}

/* The same problem for double_attention.h. */
static inline struct double_attention as_double(const struct tile_attention *a)
{
    const struct tile_attention_sizes *sizes = &a->sizes;
    return (struct double_attention){.kernels = a->kernels,
                                     .pool = a->pool,
                                     .workers = sizes->workers,
                                     .num_queries = sizes->num_queries,
                                     .num_keys = sizes->num_keys,
                                     .dim = sizes->dim,
                                     .value_dim = sizes->value_dim,
                                     .most = size_sum(sizes->num_queries, sizes->num_keys),
                                     .query = a->query,
                                     .key = a->key,
                                     .value = a->value,
                                     .run = seen_run,
                                     .argument = a,
                                     .terms = a->terms};
}

/* Memory of one thread for every product here: rows of TILE, BLOCK or STRIP; columns and depth of these or of
   a width. */
static inline struct tile_products take_products(const struct tile_attention_sizes *sizes,
                                                 struct arena *arena)
{
    size_t rows = sizes->terms > 0 ? STRIP : TILE,
           wide = size_max(size_max(sizes->dim, sizes->value_dim), rows);
    return tile_products_take(arena, sizes->precision, rows, wide, wide);
}

#endif
