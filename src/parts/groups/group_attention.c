/* Tiles of gathered rows, with the block and tile sizes tuned for exact attention (attention/softmax.c).
   group_attention_rows.c merges what the groups leave at places.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/group_attention.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "parts/groups/group_attention_double.h"
#include "parts/groups/group_attention_rows.h"
#include "parts/rows/plain_norm.h"
#include "parts/tiles/tile_products.h"

enum {
    BLOCK = 96, /* queries at a time */
    TILE = 128  /* keys at a time */
};

static struct tile_products take_products(const struct problem_shape *shape, struct arena *arena)
{
    size_t wide = size_max(size_max(shape->head_dim, shape->value_dim), TILE);
    return tile_products_take(arena, shape->precision, TILE, wide, wide);
}

/* to (count, columns of the rows), adjacent, = the rows in `list`. */
static void gather(float *to, struct view rows, const uint32_t *list, size_t count)
{
    for (size_t i = 0; i < size_min(GROUP_AHEAD, count); i++)
        view_prefetch(rows, list[i]);
    for (size_t i = 0; i < count; i++) {
        if (i + GROUP_AHEAD < count)
            view_prefetch(rows, list[i + GROUP_AHEAD]);
        memcpy(to + i * rows.cols, view_row(rows, list[i]), rows.cols * sizeof *to);
    }
}

/* Memory of one thread that plain_norm_rows needs; NULL: rows are not normed. */
static void *take_norm(const struct problem_shape *shape, bool norm, struct arena *arena)
{
    return norm ? arena_take(arena, plain_norm_size(shape->head_dim), 1) : NULL;
}

/* As gather, for queries or keys, which are normed on the way. Each is normed once per group that holds it,
   sqrt(2) times on average; a pass over all rows beforehand took no less time, and memory for them. */
static void gather_attending(const struct kernels *kernels, void *norm, float *to, struct view rows,
                             const uint32_t *list, size_t count)
{
    if (norm != NULL)
        plain_norm_rows(kernels, to, rows, list, 0, count, norm);
    else
        gather(to, rows, list, count);
}

/* Transposes rows (count, cols) tile by tile: each tile becomes (cols, TILE). */
static void transpose_tiles(const struct kernels *kernels, float *to, const float *rows, size_t cols,
                            size_t count)
{
    for (size_t tile = 0; tile < count; tile += TILE)
        kernels->tiles.transpose(to + tile * cols, TILE, rows + tile * cols, cols,
                                 size_min(TILE, count - tile), cols);
}

/* The range that any query at places first .. first + rows - 1 meets, starting at a whole tile. */
static struct seen seen_by_block(const struct group_lists *lists, const uint32_t *queries, size_t first,
                                 size_t rows, size_t keys, struct seen *each)
{
    struct seen all = {keys, 0};
    for (size_t i = 0; i < rows; i++) {
        each[i] = group_seen(lists->sight, &lists->window, queries, first + i, keys);
        all.first = size_min(all.first, each[i].first);
        all.end = size_max(all.end, each[i].end);
    }
    all.first = all.first / TILE * TILE;
    return all;
}

static void hide_by_token(enum group_sight sight, float *scores, const uint32_t *queries,
                          const uint32_t *keys, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            scores[i * TILE + j] = sight_sees(sight, queries[i], keys[j]) ? scores[i * TILE + j] : -INFINITY;
}

/* The rows of the places from `place` on. */
static const uint32_t *rows_at(const uint32_t *rows, const struct members *members, size_t place)
{
    return (rows == NULL ? members->list : rows) + place;
}

/* queries: the tokens of the rows; keys: of the whole group. */
static void hide_unseen(enum group_sight sight, float *scores, const struct seen *each,
                        const uint32_t *queries, const uint32_t *keys, size_t rows, size_t tile, size_t cols)
{
    if (sight == SIGHT_ALL)
        return;
    if (sight_is_by_token(sight)) {
        hide_by_token(sight, scores, queries, keys + tile, rows, cols);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            if (tile + j < each[i].first || tile + j >= each[i].end)
                scores[i * TILE + j] = -INFINITY;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct forward_memory {
    struct group_forward_places places;
    /* of one thread: the keys of a group and the current block of its queries */
    float *key, *key_columns, *value, *query, *scores, *factor;
    void *norm;
    struct tile_products products;
    size_t bytes;
};

static struct forward_memory forward_memory(const struct problem_shape *shape,
                                            const struct group_sizes *sizes, void *block, size_t worker)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block), own;
    size_t keys = whole_tiles(sizes->longest_key, TILE), d = shape->head_dim, d_v = shape->value_dim;
    memory.places = group_forward_places_take(&arena, shape, sizes);
    size_t bytes = 0;
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        memory.key = arena_take(&own, size_product(keys, d), sizeof(float));
        memory.key_columns = arena_take(&own, size_product(keys, d), sizeof(float));
        memory.value = arena_take(&own, size_product(keys, d_v), sizeof(float));
        memory.query = arena_take(&own, size_product(BLOCK, d), sizeof(float));
        memory.scores = arena_take(&own, BLOCK * TILE, sizeof(float));
        memory.factor = arena_take(&own, BLOCK, sizeof(float));
        memory.norm = take_norm(shape, sizes->norm, &own);
        memory.products = take_products(shape, &own);
        bytes = own.used;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t group_forward_size(const struct problem_shape *shape, const struct group_sizes *sizes)
{
    return size_max(forward_memory(shape, sizes, NULL, 0).bytes, group_in_double_size(shape, sizes));
}

struct forward_pass {
    const struct problem *problem;
    const struct group_lists *lists;
    void *scratch;
};

/* `rows` queries of a group's list, from `first` on. */
static void forward_block(const struct forward_pass *pass, const struct forward_memory *memory, size_t group,
                          size_t first, size_t rows)
{
    const struct problem *problem = pass->problem;
    const struct group_lists *lists = pass->lists;
    const struct kernels *kernels = problem->kernels;
    enum group_sight sight = lists->sight;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim,
           keys = members_of(&lists->keys, group);
    const uint32_t *queries = lists->queries.list + lists->queries.start[group],
                   *group_keys = lists->keys.list + lists->keys.start[group];
    size_t place = lists->queries.start[group] + first;
    float scale = score_scale(d);
    const struct group_parts *parts = &memory->places.parts;
    float *result = parts->result + place * d_v, *row_max = parts->max + place, *row_sum = parts->sum + place;
    const struct weight_dropout dropout =
        weight_dropout_of_list(&problem->dropout, lists->first_list + group);
    struct seen each[BLOCK], all = seen_by_block(lists, queries, first, rows, keys, each);
    gather_attending(kernels, memory->norm, memory->query, problem->query,
                     rows_at(lists->query_rows, &lists->queries, place), rows);
    for (size_t i = 0; i < rows; i++) {
        row_max[i] = SOFTMAX_ROWS_LEAST;
        row_sum[i] = 0;
    }
    if (all.first == all.end) /* a group without keys */
        memset(result, 0, rows * d_v * sizeof *result);
    for (size_t tile = all.first; tile < all.end; tile += TILE) {
        size_t cols = size_min(TILE, all.end - tile);
        tile_multiply(&memory->products, kernels, memory->scores, TILE, memory->query, d, 1,
                      memory->key_columns + tile * d, TILE, rows, cols, d, false);
        hide_unseen(sight, memory->scores, each, queries + first, group_keys, rows, tile, cols);
        kernels->softmax.step(memory->scores, TILE, rows, cols, scale, row_max, row_sum, memory->factor);
        weight_dropout_tile(&dropout, kernels, memory->scores, rows, cols, first, tile);
        if (tile > all.first)
            tile_rescale(kernels, result, d_v, memory->factor, rows);
        tile_multiply(&memory->products, kernels, result, d_v, memory->scores, TILE, 1,
                      memory->value + tile * d_v, d_v, rows, d_v, cols, tile > all.first);
    }
}

static void forward_group(void *argument, size_t group, int worker)
{
    const struct forward_pass *pass = argument;
    const struct problem *problem = pass->problem;
    const struct group_lists *lists = pass->lists;
    struct forward_memory memory =
        forward_memory(&problem->shape, &lists->sizes, pass->scratch, (size_t)worker);
    const uint32_t *keys = rows_at(lists->key_rows, &lists->keys, lists->keys.start[group]);
    size_t num_keys = members_of(&lists->keys, group), num_queries = members_of(&lists->queries, group);
    gather_attending(problem->kernels, memory.norm, memory.key, problem->key, keys, num_keys);
    gather(memory.value, problem->value, keys, num_keys);
    transpose_tiles(problem->kernels, memory.key_columns, memory.key, problem->shape.head_dim, num_keys);
    for (size_t first = 0; first < num_queries; first += BLOCK)
        forward_block(pass, &memory, group, first, size_min(BLOCK, num_queries - first));
}

void group_places_forward(const struct problem *problem, const struct group_lists *lists, void *scratch)
{
    struct forward_pass pass = {problem, lists, scratch};
    pool_run(problem->pool, forward_group, &pass, lists->queries.num_groups);
}

void group_forward(const struct problem *problem, const struct group_lists *lists, struct view out,
                   void *scratch)
{
    assert(!drops_weights(&problem->dropout) || !problem->large);
    if (group_forward_in_double(problem, lists, out, scratch))
        return;
    group_places_forward(problem, lists, scratch);
    group_rows_forward(problem, lists, out, scratch);
}

/* ---- backward ------------------------------------------------------------------------------------------
   With P the probabilities over all keys that a query meets, G = dout and delta_i = <G_i, out_i>:
   dV = P^T G;  dS = P (G V^T - delta) / sqrt(d);  dQ = dS K;  dK = dS^T Q. */

struct backward_memory {
    struct group_backward_places places;
    /* of one thread */
    float *key, *key_columns, *value, *value_columns;
    float *query, *dout, *scores, *dscores, *max, *log_sum, *deltas;
    void *norm;
    struct tile_products products;
    size_t bytes;
};

static struct backward_memory backward_memory(const struct problem_shape *shape,
                                              const struct group_sizes *sizes, void *block, size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block), own;
    size_t keys = whole_tiles(sizes->longest_key, TILE), d = shape->head_dim, d_v = shape->value_dim,
           bytes = 0;
    memory.places = group_backward_places_take(&arena, shape, sizes);
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        memory.key = arena_take(&own, size_product(keys, d), sizeof(float));
        memory.key_columns = arena_take(&own, size_product(keys, d), sizeof(float));
        memory.value = arena_take(&own, size_product(keys, d_v), sizeof(float));
        memory.value_columns = arena_take(&own, size_product(keys, d_v), sizeof(float));
        memory.query = arena_take(&own, size_product(BLOCK, d), sizeof(float));
        memory.dout = arena_take(&own, size_product(BLOCK, d_v), sizeof(float));
        memory.scores = arena_take(&own, BLOCK * TILE, sizeof(float));
        memory.dscores = arena_take(&own, BLOCK * TILE, sizeof(float));
        memory.max = arena_take(&own, BLOCK, sizeof(float));
        memory.log_sum = arena_take(&own, BLOCK, sizeof(float));
        memory.deltas = arena_take(&own, BLOCK, sizeof(float));
        memory.norm = take_norm(shape, sizes->norm, &own);
        memory.products = take_products(shape, &own);
        bytes = own.used;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t group_backward_size(const struct problem_shape *shape, const struct group_sizes *sizes)
{
    return size_max(backward_memory(shape, sizes, NULL, 0).bytes, group_in_double_size(shape, sizes));
}

struct backward_pass {
    const struct problem *problem;
    const struct group_lists *lists;
    struct view dout;
    void *scratch;
};

/* The first block of queries writes the gradients of keys and values that later ones add to, if it meets all
   keys of the group; otherwise they begin at 0. */
static bool begins_at_zero(const struct group_lists *lists, size_t group)
{
    return lists->sight != SIGHT_ALL || members_of(&lists->queries, group) == 0;
}

static void backward_block(const struct backward_pass *pass, const struct backward_memory *memory,
                           size_t group, size_t first, size_t rows)
{
    const struct problem *problem = pass->problem;
    const struct group_lists *lists = pass->lists;
    const struct kernels *kernels = problem->kernels;
    enum group_sight sight = lists->sight;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim,
           keys = members_of(&lists->keys, group), key_start = lists->keys.start[group];
    const uint32_t *queries = lists->queries.list + lists->queries.start[group],
                   *group_keys = lists->keys.list + key_start;
    const uint32_t *places = rows_at(lists->query_rows, &lists->queries, lists->queries.start[group] + first);
    const struct group_slopes *slopes = &memory->places.slopes;
    float *dquery = slopes->query + (lists->queries.start[group] + first) * d, *p = memory->scores,
          *ds = memory->dscores, scale = score_scale(d);
    bool add = first > 0 || begins_at_zero(lists, group);
    const struct weight_dropout dropout =
        weight_dropout_of_list(&problem->dropout, lists->first_list + group);
    struct seen each[BLOCK], all = seen_by_block(lists, queries, first, rows, keys, each);
    gather_attending(kernels, memory->norm, memory->query, problem->query, places, rows);
    gather(memory->dout, pass->dout, places, rows);
    for (size_t i = 0; i < rows; i++) {
        memory->max[i] = lists->rows.max[places[i]];
        memory->log_sum[i] = lists->rows.log_sum[places[i]];
        memory->deltas[i] = slopes->delta[places[i]];
    }
    if (all.first == all.end)
        memset(dquery, 0, rows * d * sizeof *dquery);
    for (size_t tile = all.first; tile < all.end; tile += TILE) {
        size_t cols = size_min(TILE, all.end - tile), at = key_start + tile;
        tile_multiply(&memory->products, kernels, p, TILE, memory->query, d, 1,
                      memory->key_columns + tile * d, TILE, rows, cols, d, false);
        hide_unseen(sight, p, each, queries + first, group_keys, rows, tile, cols);
        kernels->softmax.again(p, TILE, rows, cols, scale, memory->max, memory->log_sum);
        tile_multiply(&memory->products, kernels, ds, TILE, memory->dout, d_v, 1,
                      memory->value_columns + tile * d_v, TILE, rows, cols, d_v, false);
        weight_dropout_tile(&dropout, kernels, ds, rows, cols, first, tile);
        kernels->softmax.gradient(ds, TILE, p, TILE, rows, cols, scale, memory->deltas);
        weight_dropout_tile(&dropout, kernels, p, rows, cols, first, tile);
        tile_multiply(&memory->products, kernels, slopes->value + at * d_v, d_v, p, 1, TILE, memory->dout,
                      d_v, cols, d_v, rows, add);
        tile_multiply(&memory->products, kernels, slopes->key + at * d, d, ds, 1, TILE, memory->query, d,
                      cols, d, rows, add);
        tile_multiply(&memory->products, kernels, dquery, d, ds, TILE, 1, memory->key + tile * d, d, rows, d,
                      cols, tile > all.first);
    }
}

static void backward_group(void *argument, size_t group, int worker)
{
    const struct backward_pass *pass = argument;
    const struct problem *problem = pass->problem;
    const struct group_lists *lists = pass->lists;
    struct backward_memory memory =
        backward_memory(&problem->shape, &lists->sizes, pass->scratch, (size_t)worker);
    size_t num_keys = members_of(&lists->keys, group), num_queries = members_of(&lists->queries, group);
    size_t at = lists->keys.start[group], d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    const uint32_t *keys = rows_at(lists->key_rows, &lists->keys, at);
    gather_attending(problem->kernels, memory.norm, memory.key, problem->key, keys, num_keys);
    gather(memory.value, problem->value, keys, num_keys);
    transpose_tiles(problem->kernels, memory.key_columns, memory.key, d, num_keys);
    transpose_tiles(problem->kernels, memory.value_columns, memory.value, d_v, num_keys);
    if (begins_at_zero(lists, group)) {
        memset(memory.places.slopes.key + at * d, 0, num_keys * d * sizeof(float));
        memset(memory.places.slopes.value + at * d_v, 0, num_keys * d_v * sizeof(float));
    }
    for (size_t first = 0; first < num_queries; first += BLOCK)
        backward_block(pass, &memory, group, first, size_min(BLOCK, num_queries - first));
}

void group_places_backward(const struct problem *problem, const struct group_lists *lists, struct view dout,
                           void *scratch)
{
    struct backward_pass pass = {problem, lists, dout, scratch};
    pool_run(problem->pool, backward_group, &pass, lists->queries.num_groups);
}

/* Queries that met only their own key: their maximum is as it began. */
static void add_own_values(const struct problem *problem, const struct group_lists *lists, struct view dout,
                           struct view dvalue)
{
    for (size_t i = 0; i < problem->shape.num_queries; i++)
        if (lists->rows.max[i] == SOFTMAX_ROWS_LEAST)
            problem->kernels->rows.axpy(view_row(dvalue, i), 1, view_row(dout, i), problem->shape.value_dim);
}

void group_backward(const struct problem *problem, const struct group_lists *lists, struct view out,
                    struct view dout, const struct problem_gradients *gradients, void *scratch)
{
    if (group_backward_in_double(problem, lists, dout, gradients, scratch))
        return;
    group_deltas(problem, out, dout, group_slopes(&problem->shape, &lists->sizes, scratch).delta);
    group_places_backward(problem, lists, dout, scratch);
    group_rows_backward(problem, lists, gradients, scratch);
    if (sight_is_by_token(lists->sight))
        add_own_values(problem, lists, dout, gradients->value);
}
