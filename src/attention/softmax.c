/* Exact attention, out = softmax(Q K^T / sqrt(d)) V, in tiles (Vaswani et al. 2017; Dao et al. 2022): no
   n x n array exists, the running softmax carries a maximum and a sum per query (Milakov and Gimelshein
   2018). Cost: 2 n_q n_k (d + d_v) operations and n_q n_k exponentials forward, 2.5 times that backward,
   which makes the probabilities again from scores; a causal problem costs half, since tiles that no query of
   a block sees are left out, and the scores of unseen keys in the others are -inf. Nothing is random. Saved:
   lse_i = log sum_j exp(score_ij), one float per query. Order of loops: operands of a product should be
   adjacent and in the nearest cache. So a group of rows is copied out of the caller's strided views once, and
   everything of the other side passes by in tiles: forward holds a group of queries and turns a tile of keys
   for all of it; backward holds a group of keys. Scratch therefore does not grow with n (but for one float
   per query). Threads: groups of queries forward; backward a grid of groups of keys and blocks of queries, in
   which dQ is summed along a column and dK, dV along a row. With precision bf16 the operands of every product
   are rounded, probabilities too; scores, maxima, sums and results stay float32.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/tile_products.h"

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

/* Of one thread, for every product here: rows of TILE or BLOCK, columns and depth of these or of a width. */
static struct tile_products take_products(const struct problem_shape *shape, struct arena *arena)
{
    size_t wide = shape->head_dim > shape->value_dim ? shape->head_dim : shape->value_dim;
    wide = wide > TILE ? wide : TILE;
    return tile_products_take(arena, shape->precision, TILE, wide, wide);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Queries of a group: whole blocks, so that the same queries meet in a tile whatever the group, and at least
   two groups for each thread. */
static size_t query_group(const struct problem_shape *shape)
{
    size_t parts = shape->workers == 1 ? 1 : 2 * shape->workers;
    size_t queries = (shape->num_queries + parts * BLOCK - 1) / (parts * BLOCK) * BLOCK;
    return smaller(queries < BLOCK ? BLOCK : queries, QUERY_GROUP);
}

/* Of one thread. */
struct forward_memory {
    float *query, *result;             /* (group, d), (group, d_v) */
    float *row_max, *row_sum, *factor; /* (group), (group), (BLOCK) */
    float *key_columns, *value;        /* (d, TILE), (TILE, d_v): the present tile of keys */
    float *scores;                     /* (BLOCK, TILE) */
    struct tile_products products;
    size_t bytes;
};

static struct forward_memory forward_memory(const struct problem_shape *shape, void *block)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block);
    size_t group = smaller(shape->num_queries, query_group(shape));
    memory.query = arena_take(&arena, size_product(group, shape->head_dim), sizeof(float));
    memory.result = arena_take(&arena, size_product(group, shape->value_dim), sizeof(float));
    memory.row_max = arena_take(&arena, group, sizeof(float));
    memory.row_sum = arena_take(&arena, group, sizeof(float));
    memory.factor = arena_take(&arena, BLOCK, sizeof(float));
    memory.key_columns = arena_take(&arena, size_product(TILE, shape->head_dim), sizeof(float));
    memory.value = arena_take(&arena, size_product(TILE, shape->value_dim), sizeof(float));
    memory.scores = arena_take(&arena, BLOCK * TILE, sizeof(float));
    memory.products = take_products(shape, &arena);
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
    tile_multiply(&memory->products, kernels, memory->scores, TILE, memory->query + at * d, d, 1,
                  memory->key_columns, TILE, rows, cols, d, false);
    hide_unseen(problem, memory->scores, group + at, rows, tile, cols);
    kernels->softmax_step(memory->scores, TILE, rows, cols, scale_of(&problem->shape), memory->row_max + at,
                          memory->row_sum + at, memory->factor);
    if (!first)
        rescale(kernels, result, d_v, memory->factor, rows);
    tile_multiply(&memory->products, kernels, result, d_v, memory->scores, TILE, 1, memory->value, d_v, rows,
                  d_v, cols, !first);
}

struct forward_pass {
    const struct problem *problem;
    struct view out;
    size_t start; /* first_seeing */
    size_t group; /* queries of a group */
    size_t groups;
};

static void forward_group(void *argument, size_t index, int worker)
{
    const struct forward_pass *pass = argument;
    const struct problem *problem = pass->problem;
    const struct problem_shape *shape = &problem->shape;
    const struct kernels *kernels = problem->kernels;
    size_t bytes = forward_memory(shape, NULL).bytes;
    struct forward_memory memory =
        forward_memory(shape, (unsigned char *)problem->scratch + (size_t)worker * bytes);
    float *lse = problem->saved;
    /* The last queries of a causal problem see most: dearest first. */
    size_t group = pass->start + (pass->groups - 1 - index) * pass->group;
    size_t queries = smaller(pass->group, shape->num_queries - group);
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
        memcpy(row_of(pass->out, group + i), memory.result + i * shape->value_dim,
               shape->value_dim * sizeof(float));
}

static void forward(const struct problem *problem, struct view out)
{
    struct forward_pass pass = {.problem = problem,
                                .out = out,
                                .start = first_seeing(problem),
                                .group = query_group(&problem->shape)};
    for (size_t i = 0; i < pass.start; i++)
        memset(row_of(out, i), 0, out.cols * sizeof(float));
    pass.groups = (problem->shape.num_queries - pass.start + pass.group - 1) / pass.group;
    pool_run(problem->pool, forward_group, &pass, pass.groups);
}

/* ---- backward ------------------------------------------------------------------------------------------
   With P the probabilities, G = dout and delta_i = <G_i, out_i> = sum_j P_ij <G_i, V_j>:
   dV = P^T G;  dS_ij = P_ij (<G_i, V_j> - delta_i) / sqrt(d);  dQ = dS K;  dK = dS^T Q. */

/* Of one group of keys that is under way, and of one thread. */
struct backward_memory {
    float *key, *dkey, *dvalue;         /* (group, d), (group, d), (group, d_v) */
    float *key_columns, *value_columns; /* (group / TILE, d or d_v, TILE) */
    float *query, *dout, *dquery; /* (BLOCK, d), (BLOCK, d_v), (BLOCK, d): the present block of queries */
    float *scores, *dscores;      /* (BLOCK, TILE) */
    struct tile_products products;
    float *delta; /* (n_q), of all */
    size_t bytes;
};

/* Groups of keys under way at once: dK and dV of a group pass from thread to thread. */
static size_t groups_at_once(const struct problem_shape *shape)
{
    return shape->workers == 1 ? 1 : 2 * shape->workers;
}

/* What cell (group, thread) of the pass works in. */
static struct backward_memory backward_memory(const struct problem_shape *shape, void *block, size_t group,
                                              size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block);
    size_t rows = smaller((shape->num_keys + TILE - 1) / BLOCK * TILE, KEY_GROUP), d = shape->head_dim,
           d_v = shape->value_dim, groups = groups_at_once(shape), workers = shape->workers;
    memory.delta = arena_take(&arena, shape->num_queries, sizeof(float));
    struct {
        float **array;
        size_t count, size, index;
    } arrays[] = {
        {&memory.key, groups, size_product(rows, d), group},
        {&memory.dkey, groups, size_product(rows, d), group},
        {&memory.dvalue, groups, size_product(rows, d_v), group},
        {&memory.key_columns, groups, size_product(rows, d), group},
        {&memory.value_columns, groups, size_product(rows, d_v), group},
        {&memory.query, workers, size_product(BLOCK, d), worker},
        {&memory.dout, workers, size_product(BLOCK, d_v), worker},
        {&memory.dquery, workers, size_product(BLOCK, d), worker},
        {&memory.scores, workers, BLOCK * TILE, worker},
        {&memory.dscores, workers, BLOCK * TILE, worker},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        float *all = arena_take(&arena, size_product(arrays[i].count, arrays[i].size), sizeof(float));
        *arrays[i].array = all == NULL ? NULL : all + arrays[i].index * arrays[i].size;
    }
    struct arena one = arena_on(NULL);
    take_products(shape, &one);
    unsigned char *products = arena_take(&arena, workers, one.used);
    one = arena_on(products == NULL ? NULL : products + worker * one.used);
    memory.products = take_products(shape, &one);
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
    tile_multiply(&memory->products, kernels, p, TILE, memory->query, d, 1, memory->key_columns + tile * d,
                  TILE, rows, cols, d, false);
    hide_unseen(problem, p, block, rows, group + tile, cols);
    kernels->softmax_again(p, TILE, rows, cols, scale, lse + block);
    tile_multiply(&memory->products, kernels, ds, TILE, memory->dout, d_v, 1,
                  memory->value_columns + tile * d_v, TILE, rows, cols, d_v, false);
    kernels->softmax_gradient(ds, TILE, p, TILE, rows, cols, scale, memory->delta + block);
    tile_multiply(&memory->products, kernels, memory->dvalue + tile * d_v, d_v, p, 1, TILE, memory->dout, d_v,
                  cols, d_v, rows, add);
    tile_multiply(&memory->products, kernels, memory->dkey + tile * d, d, ds, 1, TILE, memory->query, d, cols,
                  d, rows, add);
    tile_multiply(&memory->products, kernels, memory->dquery, d, ds, TILE, 1, memory->key + tile * d, d, rows,
                  d, cols, tile > 0);
}

struct backward_pass {
    const struct problem *problem;
    struct view out, dout;
    const struct problem_gradients *gradients;
    size_t start;       /* first_seeing */
    size_t first_group; /* of those under way, in keys */
    size_t num_query_blocks;
};

static void group_begin(const struct backward_pass *pass, const struct backward_memory *memory, size_t group,
                        size_t keys)
{
    const struct problem *problem = pass->problem;
    const struct kernels *kernels = problem->kernels;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    copy_rows(memory->key, problem->key, group, keys);
    for (size_t tile = 0; tile < keys; tile += TILE) {
        size_t cols = smaller(TILE, keys - tile);
        kernels->tile_transpose(memory->key_columns + tile * d, TILE, memory->key + tile * d, d, cols, d);
        kernels->tile_transpose(memory->value_columns + tile * d_v, TILE,
                                row_of(problem->value, group + tile), problem->value.stride, cols, d_v);
    }
    if (problem->shape.causal) {
        memset(memory->dkey, 0, keys * d * sizeof(float));
        memset(memory->dvalue, 0, keys * d_v * sizeof(float));
    }
}

/* A group of keys meets a block of queries: blocks in order for dK and dV, groups in order for dQ. */
static void backward_cell(void *argument, size_t row, size_t col, int worker)
{
    const struct backward_pass *pass = argument;
    const struct problem *problem = pass->problem;
    const struct problem_shape *shape = &problem->shape;
    const struct kernels *kernels = problem->kernels;
    struct backward_memory memory = backward_memory(shape, problem->scratch, row, (size_t)worker);
    size_t group = pass->first_group + row * KEY_GROUP, keys = smaller(KEY_GROUP, shape->num_keys - group);
    size_t block = pass->start + col * BLOCK, rows = smaller(BLOCK, shape->num_queries - block);
    if (col == 0)
        group_begin(pass, &memory, group, keys);
    if (seen_of(problem, block + rows - 1, group, keys) > 0) {
        copy_rows(memory.query, problem->query, block, rows);
        copy_rows(memory.dout, pass->dout, block, rows);
        for (size_t tile = 0; tile < keys; tile += TILE)
            backward_tile(problem, &memory, block, rows, group, tile, smaller(TILE, keys - tile));
        add_rows(kernels, pass->gradients->query, block, rows, memory.dquery);
    }
    if (col + 1 == pass->num_query_blocks) {
        add_rows(kernels, pass->gradients->key, group, keys, memory.dkey);
        add_rows(kernels, pass->gradients->value, group, keys, memory.dvalue);
    }
}

static void delta_block(void *argument, size_t index, int worker)
{
    const struct backward_pass *pass = argument;
    const struct problem *problem = pass->problem;
    float *delta = backward_memory(&problem->shape, problem->scratch, 0, (size_t)worker).delta;
    size_t block = pass->start + index * BLOCK, rows = smaller(BLOCK, problem->shape.num_queries - block);
    problem->kernels->row_dots(delta + block, row_of(pass->dout, block), pass->dout.stride,
                               row_of(pass->out, block), pass->out.stride, rows, problem->shape.value_dim);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    const struct problem_shape *shape = &problem->shape;
    struct backward_pass pass = {
        .problem = problem, .out = out, .dout = dout, .gradients = gradients, .start = first_seeing(problem)};
    pass.num_query_blocks = (shape->num_queries - pass.start + BLOCK - 1) / BLOCK;
    pool_run(problem->pool, delta_block, &pass, pass.num_query_blocks);
    size_t keys_at_once = groups_at_once(shape) * KEY_GROUP;
    for (; pass.first_group < shape->num_keys; pass.first_group += keys_at_once) {
        size_t keys = smaller(keys_at_once, shape->num_keys - pass.first_group);
        pool_run_grid(problem->pool, backward_cell, &pass, (keys + KEY_GROUP - 1) / KEY_GROUP,
                      pass.num_query_blocks);
    }
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    size_t forward_bytes = size_product(shape->workers, forward_memory(shape, NULL).bytes);
    size_t backward_bytes = backward_memory(shape, NULL, 0, 0).bytes;
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
