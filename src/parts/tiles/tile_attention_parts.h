/* Internals of tiled attention that forward and backward share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TILE_ATTENTION_PARTS_H
#define PARTS_TILE_ATTENTION_PARTS_H

#include <math.h>
#include <string.h>

#include "parts/tiles/double_attention.h"
#include "parts/tiles/tile_attention.h"
#include "parts/tiles/tile_products.h"

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

/* One call of either direction. */
struct tile_pass {
    const struct problem *problem;
    const struct tile_attention *attention;
    struct view out;
    void *scratch;
    struct sight seeing; /* the queries that see a key */
    /* forward */
    size_t group, groups; /* queries of a group, and how many groups there are */
    /* backward */
    struct view dout;
    const struct problem_gradients *gradients;
    size_t first_group; /* first key of the groups in flight (grid) or of the even or odd groups (band) */
    size_t num_blocks;  /* blocks of queries */
};

/* ---- which keys are seen ------------------------------------------------------------------------------- */

static inline struct sight sight_of(const struct tile_pass *pass, size_t query)
{
    const struct tile_attention *a = pass->attention;
    return a->sight == NULL ? (struct sight){0, pass->problem->shape.num_keys} : a->sight(a->argument, query);
}

/* The part of the tile of at most `cols` keys at `tile` that any of queries first .. first + rows - 1 sees,
   relative to the tile and starting at a whole vector. */
static inline struct sight seen_of_tile(const struct tile_pass *pass, size_t first, size_t rows, size_t tile,
                                        size_t cols)
{
    size_t begin = sight_of(pass, first).first, end = sight_of(pass, first + rows - 1).end;
    struct sight seen = {begin > tile ? (begin - tile) / ALIGNED * ALIGNED : 0,
                         end > tile ? size_min(cols, end - tile) : 0};
    return seen.first < seen.end ? seen : (struct sight){0, 0};
}

/* Sets unseen scores (rows, cols) of queries first .. and keys key .. to -inf. */
static inline void hide_unseen(const struct tile_pass *pass, float *scores, size_t first, size_t rows,
                               size_t key, size_t cols)
{
    if (sight_of(pass, first + rows - 1).first <= key && sight_of(pass, first).end >= key + cols)
        return;
    for (size_t i = 0; i < rows; i++) {
        struct sight sight = sight_of(pass, first + i);
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
static inline void add_pair_bias(const struct tile_pass *pass, float *scores, size_t first, size_t rows,
                                 size_t key, size_t cols)
{
    const struct tile_attention *a = pass->attention;
    if (a->bias != NULL)
        add_scaled(pass->problem->kernels, scores, TILE, 1 / score_scale(pass->problem->shape.head_dim),
                   a->bias + first * a->ld_bias + key, a->ld_bias, rows, cols);
}

static inline bool sees_nothing(const struct tile_pass *pass, size_t query)
{
    struct sight sight = sight_of(pass, query);
    return sight.first >= sight.end;
}

/* A pass, and the queries that see a key; all other queries have output 0 and no gradient. */
static inline struct tile_pass tile_pass_open(const struct problem *problem,
                                              const struct tile_attention *attention, struct view out,
                                              void *scratch)
{
    struct tile_pass pass = {.problem = problem,
                             .attention = attention,
                             .out = out,
                             .scratch = scratch,
                             .seeing = {0, problem->shape.num_queries}};
    while (pass.seeing.first < pass.seeing.end && sees_nothing(&pass, pass.seeing.first))
        pass.seeing.first++;
    while (pass.seeing.first < pass.seeing.end && sees_nothing(&pass, pass.seeing.end - 1))
        pass.seeing.end--;
    return pass;
}

static inline bool seen_run(const void *argument, size_t query, size_t number, struct key_run *run)
{
    struct sight sight = sight_of(argument, query);
    *run = (struct key_run){.first = sight.first, .count = sight.end - sight.first, .step = 1};
    return number == 0;
}

/* The same attention for double_attention.h. */
static inline struct double_attention as_double(const struct tile_pass *pass)
{
    const struct problem_shape *shape = &pass->problem->shape;
    return (struct double_attention){.most = size_sum(shape->num_queries, shape->num_keys),
                                     .run = seen_run,
                                     .argument = pass,
                                     .terms = pass->attention->terms};
}

/* Memory of one thread for every product here: rows of TILE, BLOCK or STRIP; columns and depth of these or of
   a width. */
static inline struct tile_products take_products(const struct problem_shape *shape,
                                                 const struct tile_attention *attention, struct arena *arena)
{
    size_t rows = attention->num_terms > 0 ? STRIP : TILE,
           wide = size_max(size_max(shape->head_dim, shape->value_dim), rows);
    return tile_products_take(arena, shape->precision, rows, wide, wide);
}

#endif
