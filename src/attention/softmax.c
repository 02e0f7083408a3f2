/* Exact attention, out = softmax(Q K^T / sqrt(d)) V, in tiles (Vaswani et al. 2017; Dao et al. 2022): no
   n x n array exists, the running softmax carries a maximum and a sum per query (Milakov and Gimelshein
   2018). Cost: 2 n_q n_k (d + d_v) operations and n_q n_k exponentials forward, 2.5 times that backward,
   which makes the probabilities again from scores; a causal problem costs half, since tiles that no query of
   a block sees are left out, and the scores of unseen keys in the others are -inf. Nothing is random. Saved:
   lse_i = log sum_j exp(score_ij), one float per query. Order of loops: operands of a product should be
   adjacent and in the nearest cache. So a group of rows is copied out of the caller's strided views once, and
   everything of the other side passes by in tiles: forward holds a group of queries and turns a tile of keys
   for all of it; backward holds a group of keys. Scratch therefore does not grow with n (but for one float
   per query). SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"

/* Measured on Zen 5 at n 4096, d 64, as a share of the peak: tiles of 64 x 64 in groups half as large reach
   71 % forward and 79 % backward, these 76 % and 83 %. A row of products is six wide on every instruction
   set, so 96 leaves no rest; longer rows of scores halve what the running maximum costs. */
enum {
    BLOCK = 96,               /* queries at a time */
    TILE = 128,               /* keys at a time */
    QUERY_GROUP = 10 * BLOCK, /* forward: at d 64, queries and their results are 480 KiB */
    KEY_GROUP = 4 * TILE,     /* backward: at d 64, five arrays of 128 KiB */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static float scale_of(const struct problem_shape *shape)
{
    return (float)(1 / sqrt((double)shape->head_dim));
}

static float *row_of(struct view rows, size_t i)
{
    return (float *)rows.data + i * rows.stride;
}

/* to (count, cols), adjacent = rows[first .. first + count). */
static void copy_rows(float *to, struct view rows, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * rows.cols, row_of(rows, first + i), rows.cols * sizeof *to);
}

/* rows[first .. first + count) += from (count, cols), adjacent. */
static void add_rows(const struct kernels *kernels, struct view rows, size_t first, size_t count,
                     const float *from)
{
    for (size_t i = 0; i < count; i++)
        kernels->axpy(row_of(rows, first + i), 1, from + i * rows.cols, rows.cols);
}

/* How many keys of the tile of at most `cols` at `tile` any of the queries up to `last` sees. */
static size_t seen_of(const struct problem *problem, size_t last, size_t tile, size_t cols)
{
    size_t seen = problem_seen(problem, last);
    return seen > tile ? smaller(cols, seen - tile) : 0;
}

/* The first query that sees a key. Those before it have output 0 and no gradient; of the others, each has a
   finite score in the first tile. */
static size_t first_seeing(const struct problem *problem)
{
    size_t first = 0;
    while (first < problem->shape.num_queries && problem_seen(problem, first) == 0)
        first++;
    return first;
}

/* Scores of queries first .. first + rows - 1 and keys tile .. tile + cols - 1: -inf where unseen. */
static void hide_unseen(const struct problem *problem, float *scores, size_t first, size_t rows, size_t tile,
                        size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = seen_of(problem, first + i, tile, cols); j < cols; j++)
            scores[i * TILE + j] = -INFINITY;
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return NULL;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return size_product(shape->num_queries, sizeof(float)); /* lse */
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct forward_memory {
    float *query, *result;             /* (group, d), (group, d_v) */
    float *row_max, *row_sum, *factor; /* (group), (group), (BLOCK) */
    float *key_columns, *value;        /* (d, TILE), (TILE, d_v): the present tile of keys */
    float *scores;                     /* (BLOCK, TILE) */
    size_t bytes;
};

static struct forward_memory forward_memory(const struct problem_shape *shape, void *block)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block);
    size_t group = smaller(shape->num_queries, QUERY_GROUP);
    memory.query = arena_take(&arena, size_product(group, shape->head_dim), sizeof(float));
    memory.result = arena_take(&arena, size_product(group, shape->value_dim), sizeof(float));
    memory.row_max = arena_take(&arena, group, sizeof(float));
    memory.row_sum = arena_take(&arena, group, sizeof(float));
    memory.factor = arena_take(&arena, BLOCK, sizeof(float));
    memory.key_columns = arena_take(&arena, size_product(TILE, shape->head_dim), sizeof(float));
    memory.value = arena_take(&arena, size_product(TILE, shape->value_dim), sizeof(float));
    memory.scores = arena_take(&arena, BLOCK * TILE, sizeof(float));
    memory.bytes = arena.used;
    return memory;
}

/* result rows *= factor; most tiles bring no new maximum, and all factors are 1. */
static void rescale(const struct kernels *kernels, float *result, size_t cols, const float *factor,
                    size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (factor[i] != 1) {
            kernels->scale_rows(result, cols, factor, rows, cols);
            return;
        }
}

/* The tile of at most `cols` keys at `tile`, for `rows` queries from `at` of the group on. */
static void forward_tile(const struct problem *problem, const struct forward_memory *memory, size_t group,
                         size_t at, size_t rows, size_t tile, size_t cols)
{
    const struct kernels *kernels = problem->kernels;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    float *result = memory->result + at * d_v;
    bool first = tile == 0;
    cols = seen_of(problem, group + at + rows - 1, tile, cols);
    if (cols == 0)
        return;
    kernels->tile_product(memory->scores, TILE, memory->query + at * d, d, 1, memory->key_columns, TILE, rows,
                          cols, d, false);
    hide_unseen(problem, memory->scores, group + at, rows, tile, cols);
    kernels->softmax_step(memory->scores, TILE, rows, cols, scale_of(&problem->shape), memory->row_max + at,
                          memory->row_sum + at, memory->factor);
    if (!first)
        rescale(kernels, result, d_v, memory->factor, rows);
    kernels->tile_product(result, d_v, memory->scores, TILE, 1, memory->value, d_v, rows, d_v, cols, !first);
}

static void forward(const struct problem *problem, struct view out)
{
    const struct problem_shape *shape = &problem->shape;
    const struct kernels *kernels = problem->kernels;
    struct forward_memory memory = forward_memory(shape, problem->scratch);
    float *lse = problem->saved;
    size_t start = first_seeing(problem);
    for (size_t i = 0; i < start; i++)
        memset(row_of(out, i), 0, out.cols * sizeof(float));
    for (size_t group = start; group < shape->num_queries; group += QUERY_GROUP) {
        size_t queries = smaller(QUERY_GROUP, shape->num_queries - group);
        size_t keys = problem_seen(problem, group + queries - 1);
        copy_rows(memory.query, problem->query, group, queries);
        for (size_t i = 0; i < queries; i++) {
            memory.row_max[i] = -INFINITY;
            memory.row_sum[i] = 0;
        }
        for (size_t tile = 0; tile < keys; tile += TILE) {
            size_t cols = smaller(TILE, keys - tile);
            kernels->tile_transpose(memory.key_columns, TILE, row_of(problem->key, tile), problem->key.stride,
                                    cols, shape->head_dim);
            copy_rows(memory.value, problem->value, tile, cols);
            for (size_t at = 0; at < queries; at += BLOCK)
                forward_tile(problem, &memory, group, at, smaller(BLOCK, queries - at), tile, cols);
        }
        for (size_t i = 0; i < queries; i++) {
            lse[group + i] = memory.row_max[i] + logf(memory.row_sum[i]);
            memory.row_sum[i] = 1 / memory.row_sum[i];
        }
        kernels->scale_rows(memory.result, shape->value_dim, memory.row_sum, queries, shape->value_dim);
        for (size_t i = 0; i < queries; i++)
            memcpy(row_of(out, group + i), memory.result + i * out.cols, out.cols * sizeof(float));
    }
}

/* ---- backward ------------------------------------------------------------------------------------------
   With P the probabilities, G = dout and delta_i = <G_i, out_i> = sum_j P_ij <G_i, V_j>:
   dV = P^T G;  dS_ij = P_ij (<G_i, V_j> - delta_i) / sqrt(d);  dQ = dS K;  dK = dS^T Q. */

struct backward_memory {
    float *delta;                       /* (n_q) */
    float *key, *dkey, *dvalue;         /* (group, d), (group, d), (group, d_v) */
    float *key_columns, *value_columns; /* (group / TILE, d or d_v, TILE) */
    float *query, *dout, *dquery; /* (BLOCK, d), (BLOCK, d_v), (BLOCK, d): the present block of queries */
    float *scores, *dscores;      /* (BLOCK, TILE) */
    size_t bytes;
};

static struct backward_memory backward_memory(const struct problem_shape *shape, void *block)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block);
    size_t group = smaller((shape->num_keys + TILE - 1) / BLOCK * TILE, KEY_GROUP);
    size_t keys = size_product(group, shape->head_dim), values = size_product(group, shape->value_dim);
    memory.delta = arena_take(&arena, shape->num_queries, sizeof(float));
    memory.key = arena_take(&arena, keys, sizeof(float));
    memory.dkey = arena_take(&arena, keys, sizeof(float));
    memory.dvalue = arena_take(&arena, values, sizeof(float));
    memory.key_columns = arena_take(&arena, keys, sizeof(float));
    memory.value_columns = arena_take(&arena, values, sizeof(float));
    memory.query = arena_take(&arena, size_product(BLOCK, shape->head_dim), sizeof(float));
    memory.dout = arena_take(&arena, size_product(BLOCK, shape->value_dim), sizeof(float));
    memory.dquery = arena_take(&arena, size_product(BLOCK, shape->head_dim), sizeof(float));
    memory.scores = arena_take(&arena, BLOCK * TILE, sizeof(float));
    memory.dscores = arena_take(&arena, BLOCK * TILE, sizeof(float));
    memory.bytes = arena.used;
    return memory;
}

/* The block of `rows` queries from `block` on, against the tile of at most `cols` keys at `tile` of the
 * group.
 */
static void backward_tile(const struct problem *problem, const struct backward_memory *memory, size_t block,
                          size_t rows, size_t group, size_t tile, size_t cols)
{
    const struct kernels *kernels = problem->kernels;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    /* Where a tile may be seen in part, its sums begin as zeros. */
    bool add = block > 0 || problem->shape.causal;
    cols = seen_of(problem, block + rows - 1, group + tile, cols);
    if (cols == 0)
        return;
    float scale = scale_of(&problem->shape), *p = memory->scores, *ds = memory->dscores;
    const float *lse = problem->saved;
    kernels->tile_product(p, TILE, memory->query, d, 1, memory->key_columns + tile * d, TILE, rows, cols, d,
                          false);
    hide_unseen(problem, p, block, rows, group + tile, cols);
    kernels->softmax_again(p, TILE, rows, cols, scale, lse + block);
    kernels->tile_product(ds, TILE, memory->dout, d_v, 1, memory->value_columns + tile * d_v, TILE, rows,
                          cols, d_v, false);
    kernels->softmax_gradient(ds, TILE, p, TILE, rows, cols, scale, memory->delta + block);
    kernels->tile_product(memory->dvalue + tile * d_v, d_v, p, 1, TILE, memory->dout, d_v, cols, d_v, rows,
                          add);
    kernels->tile_product(memory->dkey + tile * d, d, ds, 1, TILE, memory->query, d, cols, d, rows, add);
    kernels->tile_product(memory->dquery, d, ds, TILE, 1, memory->key + tile * d, d, rows, d, cols, tile > 0);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    const struct problem_shape *shape = &problem->shape;
    const struct kernels *kernels = problem->kernels;
    size_t d = shape->head_dim, d_v = shape->value_dim;
    struct backward_memory memory = backward_memory(shape, problem->scratch);
    size_t start = first_seeing(problem);
    kernels->row_dots(memory.delta, dout.data, dout.stride, out.data, out.stride, shape->num_queries, d_v);
    for (size_t group = 0; group < shape->num_keys; group += KEY_GROUP) {
        size_t keys = smaller(KEY_GROUP, shape->num_keys - group);
        copy_rows(memory.key, problem->key, group, keys);
        for (size_t tile = 0; tile < keys; tile += TILE) {
            size_t cols = smaller(TILE, keys - tile);
            kernels->tile_transpose(memory.key_columns + tile * d, TILE, memory.key + tile * d, d, cols, d);
            kernels->tile_transpose(memory.value_columns + tile * d_v, TILE,
                                    row_of(problem->value, group + tile), problem->value.stride, cols, d_v);
        }
        if (shape->causal) {
            memset(memory.dkey, 0, keys * d * sizeof(float));
            memset(memory.dvalue, 0, keys * d_v * sizeof(float));
        }
        for (size_t block = start; block < shape->num_queries; block += BLOCK) {
            size_t rows = smaller(BLOCK, shape->num_queries - block);
            if (seen_of(problem, block + rows - 1, group, keys) == 0)
                continue;
            copy_rows(memory.query, problem->query, block, rows);
            copy_rows(memory.dout, dout, block, rows);
            for (size_t tile = 0; tile < keys; tile += TILE)
                backward_tile(problem, &memory, block, rows, group, tile, smaller(TILE, keys - tile));
            add_rows(kernels, gradients->query, block, rows, memory.dquery);
        }
        add_rows(kernels, gradients->key, group, keys, memory.dkey);
        add_rows(kernels, gradients->value, group, keys, memory.dvalue);
    }
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    size_t forward_bytes = forward_memory(shape, NULL).bytes;
    size_t backward_bytes = backward_memory(shape, NULL).bytes;
    return forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
}

static const struct option_row options[] = {{.name = NULL}};

const struct mechanism mechanism_softmax = {
    .name = "softmax",
    .summary = "exact attention in tiles, quadratic in the length: the baseline",
    .options = options,
    .options_size = 0,
    .exact = true,
    .mixes = true,
    .sees_mask = false,
    .refuse = refuse,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
};
