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

enum {
    BLOCK = 96, /* queries at a time */
    TILE = 128  /* keys at a time */
};

static struct tile_products take_products(const struct group_sizes *sizes, struct arena *arena)
{
    size_t wide = size_max(size_max(sizes->dim, sizes->value_dim), TILE);
    return tile_products_take(arena, sizes->precision, TILE, wide, wide);
}

/* to (count, cols), adjacent, = the rows in `list`. */
static void gather(float *to, struct view rows, size_t cols, const uint32_t *list, size_t count)
{
    for (size_t i = 0; i < size_min(GROUP_AHEAD, count); i++)
        view_prefetch(rows, list[i]);
    for (size_t i = 0; i < count; i++) {
        if (i + GROUP_AHEAD < count)
            view_prefetch(rows, list[i + GROUP_AHEAD]);
        memcpy(to + i * cols, view_row(rows, list[i]), cols * sizeof *to);
    }
}

/* Memory of one thread that plain_norm_rows needs; NULL: rows are not normed. */
static void *take_norm(const struct group_sizes *sizes, struct arena *arena)
{
    return sizes->norm ? arena_take(arena, plain_norm_size(sizes->dim), 1) : NULL;
}

/* As gather, for queries or keys, which are normed on the way. Each is normed once per group that holds it,
   sqrt(2) times on average; a pass over all rows beforehand took no less time, and memory for them. */
static void gather_attending(const struct group_attention *a, void *norm, float *to, struct view rows,
                             const uint32_t *list, size_t count)
{
    if (a->sizes.norm)
        plain_norm_rows(a->kernels, to, rows, list, 0, count, norm);
    else
        gather(to, rows, a->sizes.dim, list, count);
}

/* Transposes rows (count, cols) tile by tile: each tile becomes (cols, TILE). */
static void turn_tiles(const struct kernels *kernels, float *to, const float *rows, size_t cols, size_t count)
{
    for (size_t tile = 0; tile < count; tile += TILE)
        kernels->tiles.transpose(to + tile * cols, TILE, rows + tile * cols, cols,
                                 size_min(TILE, count - tile), cols);
}

/* The range that any query at places first .. first + rows - 1 meets, starting at a whole tile. */
static struct seen seen_by_block(const struct group_attention *a, const uint32_t *queries, size_t first,
                                 size_t rows, size_t keys, struct seen *each)
{
    struct seen all = {keys, 0};
    for (size_t i = 0; i < rows; i++) {
        each[i] = group_seen(a->sight, &a->window, queries, first + i, keys);
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
            scores[i * TILE + j] = sight_meets(sight, queries[i], keys[j]) ? scores[i * TILE + j] : -INFINITY;
}

/* The rows of the places from `place` on. */
static const uint32_t *rows_at(const uint32_t *rows, const struct members *members, size_t place)
{
    return (rows == NULL ? members->list : rows) + place;
}

/* queries: the tokens of the rows; keys: of the whole group. */
static void hide_unseen(const struct group_attention *a, float *scores, const struct seen *each,
                        const uint32_t *queries, const uint32_t *keys, size_t rows, size_t tile, size_t cols)
{
    if (a->sight == SIGHT_ALL)
        return;
    if (sight_is_by_token(a->sight)) {
        hide_by_token(a->sight, scores, queries, keys + tile, rows, cols);
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

static struct forward_memory forward_memory(const struct group_sizes *sizes, void *block, size_t worker)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block), own;
    size_t keys = whole_tiles(sizes->longest_key, TILE), d = sizes->dim, d_v = sizes->value_dim;
    memory.places = group_forward_places_take(&arena, sizes);
    size_t bytes = 0;
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, sizes->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        memory.key = arena_take(&own, size_product(keys, d), sizeof(float));
        memory.key_columns = arena_take(&own, size_product(keys, d), sizeof(float));
        memory.value = arena_take(&own, size_product(keys, d_v), sizeof(float));
        memory.query = arena_take(&own, size_product(BLOCK, d), sizeof(float));
        memory.scores = arena_take(&own, BLOCK * TILE, sizeof(float));
        memory.factor = arena_take(&own, BLOCK, sizeof(float));
        memory.norm = take_norm(sizes, &own);
        memory.products = take_products(sizes, &own);
        bytes = own.used;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t group_forward_size(const struct group_sizes *sizes)
{
    return size_max(forward_memory(sizes, NULL, 0).bytes, group_in_double_size(sizes));
}

struct forward_pass {
    const struct group_attention *attention;
    struct view out;
    void *scratch;
};

/* result rows *= factor; in most tiles no maximum is new, and all factors are 1. */
static void rescale(const struct kernels *kernels, float *result, size_t cols, const float *factor,
                    size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (factor[i] != 1) {
            kernels->rows.scale(result, cols, factor, rows, cols);
            return;
        }
}

/* `rows` queries of a group's list, from `first` on. */
static void forward_block(const struct group_attention *a, const struct forward_memory *memory, size_t group,
                          size_t first, size_t rows)
{
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, keys = members_of(&a->keys, group);
    const uint32_t *queries = a->queries.list + a->queries.start[group];
    size_t place = a->queries.start[group] + first;
    const struct group_parts *parts = &memory->places.parts;
    float *result = parts->result + place * d_v, *row_max = parts->max + place, *row_sum = parts->sum + place;
    const struct weight_dropout dropout = weight_dropout_of_list(&a->dropout, a->first_list + group);
    struct seen each[BLOCK], all = seen_by_block(a, queries, first, rows, keys, each);
    gather_attending(a, memory->norm, memory->query, a->query, rows_at(a->query_rows, &a->queries, place),
                     rows);
    for (size_t i = 0; i < rows; i++) {
        row_max[i] = GROUP_LEAST;
        row_sum[i] = 0;
    }
    if (all.first == all.end) /* a group without keys */
        memset(result, 0, rows * d_v * sizeof *result);
    for (size_t tile = all.first; tile < all.end; tile += TILE) {
        size_t cols = size_min(TILE, all.end - tile);
        tile_multiply(&memory->products, kernels, memory->scores, TILE, memory->query, d, 1,
                      memory->key_columns + tile * d, TILE, rows, cols, d, false);
        hide_unseen(a, memory->scores, each, queries + first, a->keys.list + a->keys.start[group], rows, tile,
                    cols);
        kernels->softmax.step(memory->scores, TILE, rows, cols, score_scale(a->sizes.dim), row_max, row_sum,
                              memory->factor);
        weight_dropout_tile(&dropout, kernels, memory->scores, rows, cols, first, tile);
        if (tile > all.first)
            rescale(kernels, result, d_v, memory->factor, rows);
        tile_multiply(&memory->products, kernels, result, d_v, memory->scores, TILE, 1,
                      memory->value + tile * d_v, d_v, rows, d_v, cols, tile > all.first);
    }
}

static void forward_group(void *argument, size_t group, int worker)
{
    const struct forward_pass *pass = argument;
    const struct group_attention *a = pass->attention;
    struct forward_memory memory = forward_memory(&a->sizes, pass->scratch, (size_t)worker);
    const uint32_t *keys = rows_at(a->key_rows, &a->keys, a->keys.start[group]);
    size_t num_keys = members_of(&a->keys, group), num_queries = members_of(&a->queries, group);
    gather_attending(a, memory.norm, memory.key, a->key, keys, num_keys);
    gather(memory.value, a->value, a->sizes.value_dim, keys, num_keys);
    turn_tiles(a->kernels, memory.key_columns, memory.key, a->sizes.dim, num_keys);
    for (size_t first = 0; first < num_queries; first += BLOCK)
        forward_block(a, &memory, group, first, size_min(BLOCK, num_queries - first));
}

void group_places_forward(const struct group_attention *attention, void *scratch)
{
    struct forward_pass pass = {.attention = attention, .scratch = scratch};
    pool_run(attention->pool, forward_group, &pass, attention->queries.num_groups);
}

void group_forward(const struct group_attention *attention, struct view out, void *scratch)
{
    assert(!drops_weights(&attention->dropout) || !attention->large);
    if (group_forward_in_double(attention, out, scratch))
        return;
    group_places_forward(attention, scratch);
    group_rows_forward(attention, out, scratch);
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

static struct backward_memory backward_memory(const struct group_sizes *sizes, void *block, size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block), own;
    size_t keys = whole_tiles(sizes->longest_key, TILE), d = sizes->dim, d_v = sizes->value_dim, bytes = 0;
    memory.places = group_backward_places_take(&arena, sizes);
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, sizes->workers, bytes);
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
        memory.norm = take_norm(sizes, &own);
        memory.products = take_products(sizes, &own);
        bytes = own.used;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t group_backward_size(const struct group_sizes *sizes)
{
    return size_max(backward_memory(sizes, NULL, 0).bytes, group_in_double_size(sizes));
}

struct backward_pass {
    const struct group_attention *attention;
    struct view dout;
    void *scratch;
};

/* The first block of queries writes the gradients of keys and values that later ones add to, if it meets all
   keys of the group; otherwise they begin at 0. */
static bool begins_at_zero(const struct group_attention *a, size_t group)
{
    return a->sight != SIGHT_ALL || members_of(&a->queries, group) == 0;
}

static void backward_block(const struct backward_pass *pass, const struct backward_memory *memory,
                           size_t group, size_t first, size_t rows)
{
    const struct group_attention *a = pass->attention;
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, keys = members_of(&a->keys, group);
    const uint32_t *queries = a->queries.list + a->queries.start[group];
    const uint32_t *places = rows_at(a->query_rows, &a->queries, a->queries.start[group] + first);
    const struct group_slopes *slopes = &memory->places.slopes;
    float *dquery = slopes->query + (a->queries.start[group] + first) * d, *p = memory->scores,
          *ds = memory->dscores, scale = score_scale(a->sizes.dim);
    bool add = first > 0 || begins_at_zero(a, group);
    const struct weight_dropout dropout = weight_dropout_of_list(&a->dropout, a->first_list + group);
    struct seen each[BLOCK], all = seen_by_block(a, queries, first, rows, keys, each);
    gather_attending(a, memory->norm, memory->query, a->query, places, rows);
    gather(memory->dout, pass->dout, d_v, places, rows);
    for (size_t i = 0; i < rows; i++) {
        memory->max[i] = a->rows.max[places[i]];
        memory->log_sum[i] = a->rows.log_sum[places[i]];
        memory->deltas[i] = slopes->delta[places[i]];
    }
    if (all.first == all.end)
        memset(dquery, 0, rows * d * sizeof *dquery);
    for (size_t tile = all.first; tile < all.end; tile += TILE) {
        size_t cols = size_min(TILE, all.end - tile), at = a->keys.start[group] + tile;
        tile_multiply(&memory->products, kernels, p, TILE, memory->query, d, 1,
                      memory->key_columns + tile * d, TILE, rows, cols, d, false);
        hide_unseen(a, p, each, queries + first, a->keys.list + a->keys.start[group], rows, tile, cols);
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
    const struct group_attention *a = pass->attention;
    struct backward_memory memory = backward_memory(&a->sizes, pass->scratch, (size_t)worker);
    const uint32_t *keys = rows_at(a->key_rows, &a->keys, a->keys.start[group]);
    size_t num_keys = members_of(&a->keys, group), num_queries = members_of(&a->queries, group);
    size_t at = a->keys.start[group], d = a->sizes.dim, d_v = a->sizes.value_dim;
    gather_attending(a, memory.norm, memory.key, a->key, keys, num_keys);
    gather(memory.value, a->value, d_v, keys, num_keys);
    turn_tiles(a->kernels, memory.key_columns, memory.key, d, num_keys);
    turn_tiles(a->kernels, memory.value_columns, memory.value, d_v, num_keys);
    if (begins_at_zero(a, group)) {
        memset(memory.places.slopes.key + at * d, 0, num_keys * d * sizeof(float));
        memset(memory.places.slopes.value + at * d_v, 0, num_keys * d_v * sizeof(float));
    }
    for (size_t first = 0; first < num_queries; first += BLOCK)
        backward_block(pass, &memory, group, first, size_min(BLOCK, num_queries - first));
}

void group_places_backward(const struct group_attention *attention, struct view dout, void *scratch)
{
    struct backward_pass pass = {attention, dout, scratch};
    pool_run(attention->pool, backward_group, &pass, attention->queries.num_groups);
}

/* Queries that met only their own key: their maximum is as it began. */
static void add_own_values(const struct group_attention *a, struct view dout, struct view dvalue)
{
    for (size_t i = 0; i < a->sizes.num_queries; i++)
        if (a->rows.max[i] == GROUP_LEAST)
            a->kernels->rows.axpy(view_row(dvalue, i), 1, view_row(dout, i), a->sizes.value_dim);
}

void group_backward(const struct group_attention *attention, struct view out, struct view dout,
                    const struct problem_gradients *gradients, void *scratch)
{
    if (group_backward_in_double(attention, dout, gradients, scratch))
        return;
    group_deltas(attention, out, dout, group_slopes(&attention->sizes, scratch).delta);
    group_places_backward(attention, dout, scratch);
    group_rows_backward(attention, gradients, scratch);
    if (sight_is_by_token(attention->sight))
        add_own_values(attention, dout, gradients->value);
}
