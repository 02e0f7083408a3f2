/* Tiles of gathered rows, with the block and tile sizes tuned for exact attention (attention/softmax.c).
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/group_attention.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "parts/groups/group_attention_double.h"
#include "parts/rows/plain_norm.h"

enum {
    BLOCK = 96, /* queries at a time */
    TILE = 128, /* keys at a time */
    ROWS = 64,  /* rows merged per unit of work */
    AHEAD = 12  /* scattered rows are prefetched this many rows ahead */
};

/* Initial maximum of a row: finite, so that a tile of unseen keys changes nothing. */
#define LEAST (-FLT_MAX)

static struct tile_products take_products(const struct group_sizes *sizes, struct arena *arena)
{
    size_t wide = size_max(size_max(sizes->dim, sizes->value_dim), TILE);
    return tile_products_take(arena, sizes->precision, TILE, wide, wide);
}

/* to (count, cols), adjacent, = the rows in `list`. */
static void gather(float *to, struct view rows, size_t cols, const uint32_t *list, size_t count)
{
    for (size_t i = 0; i < size_min(AHEAD, count); i++)
        view_prefetch(rows, list[i]);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            view_prefetch(rows, list[i + AHEAD]);
        memcpy(to + i * cols, view_row(rows, list[i]), cols * sizeof *to);
    }
}

/* Memory of one thread for normed rows. */
struct norming {
    float *rows; /* (PLAIN_NORM_ROWS, d) */
    void *norm;  /* plain_norm_size */
};

static struct norming take_norming(const struct group_sizes *sizes, struct arena *arena)
{
    struct norming norming = {NULL, NULL};
    if (sizes->norm) {
        norming.rows = arena_take(arena, size_product(PLAIN_NORM_ROWS, sizes->dim), sizeof(float));
        norming.norm = arena_take(arena, plain_norm_size(sizes->dim), 1);
    }
    return norming;
}

/* As gather, for queries or keys, which are normed on the way, in L1. Each is normed once per group that
   holds it, sqrt(2) times on average; a pass over all rows beforehand took no less time, and memory for
   them. */
static void gather_attending(const struct group_attention *a, const struct norming *norming, float *to,
                             struct view rows, const uint32_t *list, size_t count)
{
    size_t d = a->sizes.dim;
    if (!a->sizes.norm) {
        gather(to, rows, d, list, count);
        return;
    }
    for (size_t first = 0; first < count; first += PLAIN_NORM_ROWS) {
        size_t some = size_min(PLAIN_NORM_ROWS, count - first);
        gather(norming->rows, rows, d, list + first, some);
        plain_norm_rows(a->kernels, to + first * d, norming->rows, some, d, norming->norm);
    }
}

/* Transposes rows (count, cols) tile by tile: each tile becomes (cols, TILE). */
static void turn_tiles(const struct kernels *kernels, float *to, const float *rows, size_t cols, size_t count)
{
    for (size_t tile = 0; tile < count; tile += TILE)
        kernels->tiles.transpose(to + tile * cols, TILE, rows + tile * cols, cols,
                                 size_min(TILE, count - tile), cols);
}

struct seen group_seen(enum group_sight sight, const struct capacity *window, const uint32_t *queries,
                       size_t place, size_t keys)
{
    if (sight == SIGHT_ALL || sight_is_by_token(sight))
        return (struct seen){0, keys};
    size_t end = place + 1,
           most = sight == SIGHT_PAST ? end : capacity_of(window, (size_t)queries[place] + 1);
    return (struct seen){end > most ? end - most : 0, end};
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

/* ---- merging places ------------------------------------------------------------------------------------ */

/* rows[i] += the places of row i, in order. */
struct gathering {
    const struct kernels *kernels;
    const struct places *places;
    const float *parts; /* (places, cols) */
    struct view rows;
};

static void add_places(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct gathering *g = argument;
    size_t end = size_min((index + 1) * ROWS, g->rows.rows), cols = g->rows.cols;
    const uint32_t *start = g->places->start, *place = g->places->place;
    for (size_t i = index * ROWS; i < end; i++)
        for (size_t p = start[i]; p < start[i + 1]; p++) {
            if (p + AHEAD < start[end])
                view_prefetch(view_of(g->parts, 0, cols), place[p + AHEAD]);
            g->kernels->rows.axpy(view_row(g->rows, i), 1, g->parts + place[p] * cols, cols);
        }
}

static void add_all_places(const struct group_attention *a, const struct places *places, const float *parts,
                           struct view rows)
{
    struct gathering gathering = {a->kernels, places, parts, rows};
    pool_run(a->pool, add_places, &gathering, (rows.rows + ROWS - 1) / ROWS);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct forward_memory {
    float *result, *row_max, *row_sum; /* (query_places, d_v), (query_places), (query_places) */
    struct places places;
    /* of one thread: the keys of a group and the current block of its queries */
    float *key, *key_columns, *value, *query, *scores, *factor;
    struct norming norming;
    struct tile_products products;
    size_t bytes;
};

static struct forward_memory forward_memory(const struct group_sizes *sizes, void *block, size_t worker)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block), own;
    size_t keys = whole_tiles(sizes->longest_key, TILE), d = sizes->dim, d_v = sizes->value_dim;
    memory.result = arena_take(&arena, size_product(sizes->query_places, d_v), sizeof(float));
    memory.row_max = arena_take(&arena, sizes->query_places, sizeof(float));
    memory.row_sum = arena_take(&arena, sizes->query_places, sizeof(float));
    memory.places = places_take(&arena, sizes->num_queries, sizes->query_places);
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
        memory.norming = take_norming(sizes, &own);
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
    float *result = memory->result + place * d_v, *row_max = memory->row_max + place,
          *row_sum = memory->row_sum + place;
    const struct weight_dropout dropout = weight_dropout_of_list(&a->dropout, a->first_list + group);
    struct seen each[BLOCK], all = seen_by_block(a, queries, first, rows, keys, each);
    gather_attending(a, &memory->norming, memory->query, a->query, rows_at(a->query_rows, &a->queries, place),
                     rows);
    for (size_t i = 0; i < rows; i++) {
        row_max[i] = LEAST;
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
    gather_attending(a, &memory.norming, memory.key, a->key, keys, num_keys);
    gather(memory.value, a->value, a->sizes.value_dim, keys, num_keys);
    turn_tiles(a->kernels, memory.key_columns, memory.key, a->sizes.dim, num_keys);
    for (size_t first = 0; first < num_queries; first += BLOCK)
        forward_block(a, &memory, group, first, size_min(BLOCK, num_queries - first));
}

/* Merges the places of a query: one softmax over their maxima and sums, and the weighted results. */
static void merge_query(const struct forward_pass *pass, const struct forward_memory *memory, size_t i)
{
    const struct group_attention *a = pass->attention;
    const uint32_t *place = memory->places.place + memory->places.start[i];
    size_t count = memory->places.start[i + 1] - memory->places.start[i], d_v = a->sizes.value_dim;
    float most = LEAST, total = 0, scale = score_scale(a->sizes.dim), *out = view_row(pass->out, i);
    memset(out, 0, d_v * sizeof *out);
    for (size_t p = 0; p < count; p++)
        most = memory->row_max[place[p]] > most ? memory->row_max[place[p]] : most;
    for (size_t p = 0; p < count; p++) {
        float *weight = memory->row_max + place[p]; /* row_max holds the weight from here on */
        *weight = expf(scale * (*weight - most));
        total += memory->row_sum[place[p]] * *weight;
    }
    a->rows.max[i] = most;
    a->rows.log_sum[i] = total == 0 ? 0 : logf(total);
    if (total == 0 && sight_is_by_token(a->sight))
        memcpy(out, view_row(a->value, i), d_v * sizeof *out);
    if (total == 0)
        return;
    for (size_t p = 0; p < count; p++)
        a->kernels->rows.axpy(out, memory->row_max[place[p]] / total, memory->result + place[p] * d_v, d_v);
}

static void merge_rows(void *argument, size_t index, int worker)
{
    const struct forward_pass *pass = argument;
    struct forward_memory memory = forward_memory(&pass->attention->sizes, pass->scratch, (size_t)worker);
    size_t end = size_min((index + 1) * ROWS, pass->attention->sizes.num_queries),
           d_v = pass->attention->sizes.value_dim;
    const uint32_t *start = memory.places.start, *place = memory.places.place;
    for (size_t i = index * ROWS; i < end; i++) {
        for (size_t p = start[i] + AHEAD; p < start[i + 1] + AHEAD && p < start[end]; p++)
            view_prefetch(view_of(memory.result, 0, d_v), place[p]);
        merge_query(pass, &memory, i);
    }
}

struct group_parts group_parts(const struct group_sizes *sizes, void *scratch)
{
    struct forward_memory memory = forward_memory(sizes, scratch, 0);
    return (struct group_parts){memory.result, memory.row_max, memory.row_sum};
}

void group_places_forward(const struct group_attention *attention, void *scratch)
{
    struct forward_pass pass = {.attention = attention, .scratch = scratch};
    pool_run(attention->pool, forward_group, &pass, attention->queries.num_groups);
}

void group_rows_forward(const struct group_attention *attention, struct view out, void *scratch)
{
    struct forward_pass pass = {attention, out, scratch};
    size_t n_q = attention->sizes.num_queries;
    struct places places = forward_memory(&attention->sizes, scratch, 0).places;
    places_find(&places, &attention->queries, n_q);
    pool_run(attention->pool, merge_rows, &pass, (n_q + ROWS - 1) / ROWS);
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
    float *dquery, *dkey, *dvalue; /* (query_places, d), (key_places, d), (key_places, d_v) */
    float *delta;                  /* (num_queries) */
    struct places query_places, key_places;
    /* of one thread */
    float *key, *key_columns, *value, *value_columns;
    float *query, *dout, *scores, *dscores, *max, *log_sum, *deltas;
    struct norming norming;
    struct tile_products products;
    size_t bytes;
};

static struct backward_memory backward_memory(const struct group_sizes *sizes, void *block, size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block), own;
    size_t keys = whole_tiles(sizes->longest_key, TILE), d = sizes->dim, d_v = sizes->value_dim, bytes = 0;
    memory.dquery = arena_take(&arena, size_product(sizes->query_places, d), sizeof(float));
    memory.dkey = arena_take(&arena, size_product(sizes->key_places, d), sizeof(float));
    memory.dvalue = arena_take(&arena, size_product(sizes->key_places, d_v), sizeof(float));
    memory.delta = arena_take(&arena, sizes->num_queries, sizeof(float));
    memory.query_places = places_take(&arena, sizes->num_queries, sizes->query_places);
    memory.key_places = places_take(&arena, sizes->num_keys, sizes->key_places);
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
        memory.norming = take_norming(sizes, &own);
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

static void backward_block(const struct backward_pass *pass, const struct backward_memory *memory,
                           size_t group, size_t first, size_t rows)
{
    const struct group_attention *a = pass->attention;
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, keys = members_of(&a->keys, group);
    const uint32_t *queries = a->queries.list + a->queries.start[group];
    const uint32_t *places = rows_at(a->query_rows, &a->queries, a->queries.start[group] + first);
    float *dquery = memory->dquery + (a->queries.start[group] + first) * d, *p = memory->scores,
          *ds = memory->dscores, scale = score_scale(a->sizes.dim);
    const struct weight_dropout dropout = weight_dropout_of_list(&a->dropout, a->first_list + group);
    struct seen each[BLOCK], all = seen_by_block(a, queries, first, rows, keys, each);
    gather_attending(a, &memory->norming, memory->query, a->query, places, rows);
    gather(memory->dout, pass->dout, d_v, places, rows);
    for (size_t i = 0; i < rows; i++) {
        memory->max[i] = a->rows.max[places[i]];
        memory->log_sum[i] = a->rows.log_sum[places[i]];
        memory->deltas[i] = memory->delta[places[i]];
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
        tile_multiply(&memory->products, kernels, memory->dvalue + at * d_v, d_v, p, 1, TILE, memory->dout,
                      d_v, cols, d_v, rows, true);
        tile_multiply(&memory->products, kernels, memory->dkey + at * d, d, ds, 1, TILE, memory->query, d,
                      cols, d, rows, true);
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
    gather_attending(a, &memory.norming, memory.key, a->key, keys, num_keys);
    gather(memory.value, a->value, d_v, keys, num_keys);
    turn_tiles(a->kernels, memory.key_columns, memory.key, d, num_keys);
    turn_tiles(a->kernels, memory.value_columns, memory.value, d_v, num_keys);
    memset(memory.dkey + at * d, 0, num_keys * d * sizeof(float));
    memset(memory.dvalue + at * d_v, 0, num_keys * d_v * sizeof(float));
    for (size_t first = 0; first < num_queries; first += BLOCK)
        backward_block(pass, &memory, group, first, size_min(BLOCK, num_queries - first));
}

struct group_slopes group_slopes(const struct group_sizes *sizes, void *scratch)
{
    struct backward_memory memory = backward_memory(sizes, scratch, 0);
    return (struct group_slopes){memory.dquery, memory.dkey, memory.dvalue, memory.delta};
}

struct delta_pass {
    const struct group_attention *attention;
    struct view out, dout;
    float *delta;
};

static void delta_rows(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct delta_pass *pass = argument;
    const struct group_attention *a = pass->attention;
    size_t first = index * ROWS, rows = size_min(ROWS, a->sizes.num_queries - first);
    a->kernels->rows.dots(pass->delta + first, view_row(pass->dout, first), pass->dout.stride,
                          view_row(pass->out, first), pass->out.stride, rows, a->sizes.value_dim);
}

void group_deltas(const struct group_attention *attention, struct view out, struct view dout, float *delta)
{
    struct delta_pass pass = {attention, out, dout, delta};
    pool_run(attention->pool, delta_rows, &pass, (attention->sizes.num_queries + ROWS - 1) / ROWS);
}

void group_places_backward(const struct group_attention *attention, struct view dout, void *scratch)
{
    struct backward_pass pass = {attention, dout, scratch};
    pool_run(attention->pool, backward_group, &pass, attention->queries.num_groups);
}

void group_rows_backward(const struct group_attention *attention, const struct attention_gradients *gradients,
                         void *scratch)
{
    const struct group_sizes *sizes = &attention->sizes;
    struct backward_memory memory = backward_memory(sizes, scratch, 0);
    places_find(&memory.query_places, &attention->queries, sizes->num_queries);
    places_find(&memory.key_places, &attention->keys, sizes->num_keys);
    add_all_places(attention, &memory.query_places, memory.dquery, gradients->query);
    add_all_places(attention, &memory.key_places, memory.dkey, gradients->key);
    add_all_places(attention, &memory.key_places, memory.dvalue, gradients->value);
}

/* Queries that met only their own key: their maximum is as it began. */
static void add_own_values(const struct group_attention *a, struct view dout, struct view dvalue)
{
    for (size_t i = 0; i < a->sizes.num_queries; i++)
        if (a->rows.max[i] == LEAST)
            a->kernels->rows.axpy(view_row(dvalue, i), 1, view_row(dout, i), a->sizes.value_dim);
}

void group_backward(const struct group_attention *attention, struct view out, struct view dout,
                    const struct attention_gradients *gradients, void *scratch)
{
    if (group_backward_in_double(attention, dout, gradients, scratch))
        return;
    group_deltas(attention, out, dout, group_slopes(&attention->sizes, scratch).delta);
    group_places_backward(attention, dout, scratch);
    group_rows_backward(attention, gradients, scratch);
    if (sight_is_by_token(attention->sight))
        add_own_values(attention, dout, gradients->value);
}
