/* Blocks are independent: forward makes the sums of the keys of each block, adds them up, and answers the
   queries of each block. Backward goes the same way with the gradients of the sums, from queries to keys.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_attention.h"

#include <string.h>

#include "base/memory.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

/* S (F, d_v), then z (F). */
static size_t sums_size(const struct feature_attention *a)
{
    return size_sum(size_product(a->map.count, a->value_dim), a->map.count);
}

static size_t blocks_of(size_t rows)
{
    return rows / FEATURE_BLOCK + (rows % FEATURE_BLOCK != 0);
}

/* Causal keys belong to the block of the first query that sees them. */
static size_t key_blocks(const struct feature_attention *a)
{
    return blocks_of(a->causal ? a->num_queries : a->num_keys);
}

struct saved {
    float *bottom; /* (num_queries) denominators */
    float *sums;   /* (key blocks): causal, of all keys before the block; otherwise the first is that of all
                      keys */
    size_t bytes;
};

static struct saved saved_of(const struct feature_attention *a)
{
    struct arena arena = arena_on(a->saved);
    struct saved s;
    s.bottom = arena_take(&arena, a->num_queries, sizeof(float));
    s.sums = arena_take(&arena, size_product(key_blocks(a), sums_size(a)), sizeof(float));
    s.bytes = arena.used;
    return s;
}

/* Of one thread. */
struct tiles {
    float *phi_query, *phi_key, *dphi; /* (FEATURE_ROWS, F) */
    float *turned;                     /* (F, FEATURE_ROWS) features of keys or (d_v, FEATURE_ROWS) values */
    float *scores, *dscores;           /* (FEATURE_ROWS, FEATURE_ROWS) */
    float *top;                        /* (FEATURE_ROWS, d_v): numerators, or their gradients */
    float *dbottom;                    /* (FEATURE_ROWS) */
    struct feature_factors factors;
    float *sums; /* running sums, or their gradients */
    float *back; /* (d_v, F): S transposed */
    void *of_map;
};

struct scratch {
    float *gradients; /* (query blocks) of the sums: as in saved, but of the queries after the block */
    char *threads;
    size_t per_thread, bytes;
};

static size_t tiles_take(const struct feature_attention *a, void *block, struct tiles *t)
{
    struct arena arena = arena_on(block);
    size_t features = size_product(FEATURE_ROWS, a->map.count),
           values = size_product(FEATURE_ROWS, a->value_dim);
    t->phi_query = arena_take(&arena, features, sizeof(float));
    t->phi_key = arena_take(&arena, features, sizeof(float));
    t->dphi = arena_take(&arena, features, sizeof(float));
    t->turned = arena_take(&arena, size_max(features, values), sizeof(float));
    t->scores = arena_take(&arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    t->dscores = arena_take(&arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    t->top = arena_take(&arena, values, sizeof(float));
    t->dbottom = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    t->factors = feature_factors_take(&arena);
    t->sums = arena_take(&arena, sums_size(a), sizeof(float));
    t->back = arena_take(&arena, size_product(a->map.count, a->value_dim), sizeof(float));
    t->of_map = arena_take(&arena, a->map.scratch, 1);
    return arena.used;
}

static struct scratch scratch_of(const struct feature_attention *a, void *block)
{
    struct tiles tiles;
    struct arena arena = arena_on(block);
    struct scratch s;
    s.per_thread = tiles_take(a, NULL, &tiles);
    s.gradients = arena_take(&arena, size_product(blocks_of(a->num_queries), sums_size(a)), sizeof(float));
    s.threads = arena_take(&arena, size_product(a->workers, s.per_thread), 1);
    s.bytes = arena.used;
    return s;
}

size_t feature_attention_saved_size(const struct feature_attention *attention)
{
    struct feature_attention sized = *attention;
    sized.saved = NULL;
    return saved_of(&sized).bytes;
}

size_t feature_attention_scratch_size(const struct feature_attention *attention)
{
    return scratch_of(attention, NULL).bytes;
}

/* The argument of every unit of work. */
struct work {
    const struct feature_attention *a;
    struct saved saved;
    struct scratch scratch;
    struct view out, dout, dquery, dkey, dvalue;
};

static struct tiles tiles_of(const struct work *w, int worker)
{
    struct tiles t;
    tiles_take(w->a, w->scratch.threads + (size_t)worker * w->scratch.per_thread, &t);
    return t;
}

/* ---- rows --------------------------------------------------------------------------------------------- */

static struct feature_span block_span(size_t rows, size_t block)
{
    size_t begin = block * FEATURE_BLOCK;
    return (struct feature_span){begin, size_min(begin + FEATURE_BLOCK, rows)};
}

static struct feature_span tile_span(struct feature_span block, size_t begin)
{
    return (struct feature_span){begin, size_min(begin + FEATURE_ROWS, block.end)};
}

/* The keys that these queries see and earlier queries do not. */
static struct feature_span new_keys(const struct feature_attention *a, struct feature_span queries)
{
    return (struct feature_span){queries.begin == 0 ? 0 : a->visible[queries.begin - 1],
                                 a->visible[queries.end - 1]};
}

static struct feature_span key_span(const struct feature_attention *a, size_t block)
{
    return a->causal ? new_keys(a, block_span(a->num_queries, block)) : block_span(a->num_keys, block);
}

/* Of the sums of a block of keys. */
static double block_level(const struct feature_attention *a, size_t block)
{
    return feature_level_before(&a->levels, a->causal ? block_span(a->num_queries, block).end : 0);
}

static void map_forward(const struct feature_attention *a, enum feature_side side, struct feature_span rows,
                        float *phi, const struct tiles *t)
{
    struct view x = side == FEATURE_QUERY ? a->query : a->key;
    a->map.forward(&a->map, side, view_row(x, rows.begin), x.stride, rows.end - rows.begin, phi, t->of_map);
}

/* ---- sums --------------------------------------------------------------------------------------------- */

/* sums += g(k) v^T and g(k), at `level`, which overwrites phi. */
static void absorb(const struct feature_attention *a, struct feature_span keys, float *phi, float *sums,
                   double level, const struct tiles *t)
{
    feature_scale_keys(a->map.kernels, &a->levels, keys, level, phi, a->map.count, &t->factors);
    const struct kernels *kernels = a->map.kernels;
    size_t features = a->map.count, rows = keys.end - keys.begin;
    kernels->tiles.product(sums, a->value_dim, phi, 1, features, view_row(a->value, keys.begin),
                           a->value.stride, features, a->value_dim, rows, true);
    for (size_t i = 0; i < rows; i++)
        kernels->rows.axpy(sums + features * a->value_dim, 1, phi + i * features, features);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void sum_keys(void *argument, size_t block, int worker)
{
    const struct work *w = argument;
    const struct feature_attention *a = w->a;
    struct tiles t = tiles_of(w, worker);
    struct feature_span keys = key_span(a, block);
    float *sums = w->saved.sums + block * sums_size(a);
    memset(sums, 0, sums_size(a) * sizeof *sums);
    for (size_t begin = keys.begin; begin < keys.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(keys, begin);
        map_forward(a, FEATURE_KEY, tile, t.phi_key, &t);
        absorb(a, tile, t.phi_key, sums, block_level(a, block), &t);
    }
}

static void exchange(float *a, float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float before = a[i];
        a[i] = b[i];
        b[i] = before;
    }
}

/* The sums of all blocks in the first; or, causal, of the blocks before each in its place. */
static void add_blocks(const struct feature_attention *a, float *sums, size_t blocks, float *spare)
{
    size_t size = sums_size(a);
    if (!a->causal) {
        for (size_t b = 1; b < blocks; b++)
            a->map.kernels->rows.axpy(sums, 1, sums + b * size, size);
        return;
    }
    memset(spare, 0, size * sizeof *spare);
    for (size_t b = 0; b < blocks; b++) {
        float *own = sums + b * size;
        double before = feature_level_before(&a->levels, block_span(a->num_queries, b).begin);
        exchange(spare, own, size);
        a->map.kernels->rows.axpy(spare, feature_factor(a->map.kernels, before, block_level(a, b)), own,
                                  size);
    }
}

/* scores (queries, keys) = f(q).g(k), 0 where a query does not see a key. Both have at most FEATURE_ROWS
 * rows. */
static void scores_of(const struct feature_attention *a, struct feature_span queries,
                      struct feature_span keys, const struct tiles *t)
{
    size_t features = a->map.count, rows = queries.end - queries.begin, cols = keys.end - keys.begin;
    a->map.kernels->tiles.transpose(t->turned, FEATURE_ROWS, t->phi_key, features, cols, features);
    a->map.kernels->tiles.product(t->scores, FEATURE_ROWS, t->phi_query, features, 1, t->turned, FEATURE_ROWS,
                                  rows, cols, features, false);
    feature_scale_pairs(a->map.kernels, &a->levels, queries, keys, t->scores, &t->factors);
    for (size_t i = 0; i < rows; i++) {
        size_t seen = a->visible[queries.begin + i];
        for (size_t j = seen > keys.begin ? seen - keys.begin : 0; j < cols; j++)
            t->scores[i * FEATURE_ROWS + j] = 0;
    }
}

/* Adds what new keys give to the queries that see them first, and then to the running sums. */
static void answer_new(const struct feature_attention *a, struct feature_span queries, float *bottom,
                       const struct tiles *t)
{
    struct feature_span all = new_keys(a, queries);
    size_t rows = queries.end - queries.begin;
    feature_move(a->map.kernels, t->sums, sums_size(a), feature_level_before(&a->levels, queries.begin),
                 feature_level_before(&a->levels, queries.end));
    for (size_t begin = all.begin; begin < all.end; begin += FEATURE_ROWS) {
        struct feature_span keys = tile_span(all, begin);
        size_t cols = keys.end - keys.begin;
        map_forward(a, FEATURE_KEY, keys, t->phi_key, t);
        scores_of(a, queries, keys, t);
        a->map.kernels->tiles.product(t->top, a->value_dim, t->scores, FEATURE_ROWS, 1,
                                      view_row(a->value, keys.begin), a->value.stride, rows, a->value_dim,
                                      cols, true);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++)
                bottom[i] += t->scores[i * FEATURE_ROWS + j];
        absorb(a, keys, t->phi_key, t->sums, feature_level_before(&a->levels, queries.end), t);
    }
}

static void answer_block(void *argument, size_t block, int worker)
{
    const struct work *w = argument;
    const struct feature_attention *a = w->a;
    const struct kernels *kernels = a->map.kernels;
    struct tiles t = tiles_of(w, worker);
    struct feature_span queries = block_span(a->num_queries, block);
    size_t features = a->map.count, d_v = a->value_dim;
    const float *sums = w->saved.sums;
    if (a->causal)
        sums = memcpy(t.sums, w->saved.sums + block * sums_size(a), sums_size(a) * sizeof *sums);
    for (size_t begin = queries.begin; begin < queries.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(queries, begin);
        size_t rows = tile.end - tile.begin;
        float *bottom = w->saved.bottom + tile.begin;
        map_forward(a, FEATURE_QUERY, tile, t.phi_query, &t);
        kernels->tiles.product(t.top, d_v, t.phi_query, features, 1, sums, d_v, rows, d_v, features, false);
        kernels->tiles.product(bottom, 1, t.phi_query, features, 1, sums + features * d_v, 1, rows, 1,
                               features, false);
        if (a->causal) {
            feature_scale_queries(a->map.kernels, &a->levels, tile,
                                  feature_level_before(&a->levels, tile.begin), t.top, d_v, &t.factors);
            feature_scale_queries(a->map.kernels, &a->levels, tile,
                                  feature_level_before(&a->levels, tile.begin), bottom, 1, &t.factors);
            answer_new(a, tile, bottom, &t);
        }
        for (size_t i = 0; i < rows; i++) {
            bottom[i] += a->epsilon;
            bottom[i] = bottom[i] > a->floor ? bottom[i] : a->floor;
            float *out = view_row(w->out, tile.begin + i);
            for (size_t c = 0; c < d_v; c++)
                out[c] = t.top[i * d_v + c] / bottom[i];
        }
    }
}

void feature_attention_forward(const struct feature_attention *a, struct view out, void *scratch)
{
    struct work w = {.a = a, .saved = saved_of(a), .scratch = scratch_of(a, scratch), .out = out};
    struct tiles t = tiles_of(&w, 0);
    pool_run(a->pool, sum_keys, &w, key_blocks(a));
    add_blocks(a, w.saved.sums, key_blocks(a), t.sums);
    pool_run(a->pool, answer_block, &w, blocks_of(a->num_queries));
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* The gradients of numerators and denominators of some queries: dout / bottom, -(dout . out) / bottom or 0 at
 * the floor. The level of a query scales both sides of its ratio, so it has a gradient only at the floor. */
static void divide(const struct work *w, struct feature_span queries, const struct tiles *t)
{
    size_t rows = queries.end - queries.begin, d_v = w->a->value_dim;
    w->a->map.kernels->rows.dots(t->dbottom, view_row(w->dout, queries.begin), w->dout.stride,
                                 view_row(w->out, queries.begin), w->out.stride, rows, d_v);
    for (size_t i = 0; i < rows; i++) {
        const float *dout = view_row(w->dout, queries.begin + i);
        float bottom = w->saved.bottom[queries.begin + i], inverse = 1 / bottom;
        bool whole = bottom > w->a->floor;
        if (w->a->dquery_level != NULL)
            w->a->dquery_level[queries.begin + i] = whole ? 0 : -t->dbottom[i];
        t->dbottom[i] *= whole ? -inverse : 0;
        for (size_t c = 0; c < d_v; c++)
            t->top[i * d_v + c] = dout[c] * inverse;
    }
}

/* sums += f(q) dtop^T and f(q) dbottom, the gradients of S and z, at `level`. Overwrites dphi if there are
 * levels. */
static void absorb_gradients(const struct feature_attention *a, struct feature_span queries,
                             const struct tiles *t, float *sums, double level)
{
    size_t features = a->map.count, rows = queries.end - queries.begin;
    const float *phi = t->phi_query;
    if (a->levels.query != NULL) {
        phi = memcpy(t->dphi, t->phi_query, rows * features * sizeof *t->dphi);
        feature_scale_queries(a->map.kernels, &a->levels, queries, level, t->dphi, features, &t->factors);
    }
    a->map.kernels->tiles.product(sums, a->value_dim, phi, 1, features, t->top, a->value_dim, features,
                                  a->value_dim, rows, true);
    for (size_t i = 0; i < rows; i++)
        a->map.kernels->rows.axpy(sums + features * a->value_dim, t->dbottom[i], phi + i * features,
                                  features);
}

/* dphi (rows, F) = x S^T + scale z, with scale[i] of row i, or 1 if it is NULL. */
static void through_sums(const struct feature_attention *a, const float *sums, const float *x, size_t ld_x,
                         size_t rows, const float *scale, const struct tiles *t)
{
    size_t features = a->map.count, d_v = a->value_dim;
    a->map.kernels->tiles.transpose(t->back, features, sums, d_v, features, d_v);
    a->map.kernels->tiles.product(t->dphi, features, x, ld_x, 1, t->back, features, rows, features, d_v,
                                  false);
    for (size_t i = 0; i < rows; i++)
        a->map.kernels->rows.axpy(t->dphi + i * features, scale == NULL ? 1 : scale[i], sums + features * d_v,
                                  features);
}

/* dscores (queries, keys) = dtop v^T + dbottom, 0 where a query does not see a key. */
static void dscores_of(const struct feature_attention *a, struct feature_span queries,
                       struct feature_span keys, const struct tiles *t)
{
    size_t d_v = a->value_dim, rows = queries.end - queries.begin, cols = keys.end - keys.begin;
    a->map.kernels->tiles.transpose(t->turned, FEATURE_ROWS, view_row(a->value, keys.begin), a->value.stride,
                                    cols, d_v);
    a->map.kernels->tiles.product(t->dscores, FEATURE_ROWS, t->top, d_v, 1, t->turned, FEATURE_ROWS, rows,
                                  cols, d_v, false);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            t->dscores[i * FEATURE_ROWS + j] += t->dbottom[i];
    feature_scale_pairs(a->map.kernels, &a->levels, queries, keys, t->dscores, &t->factors);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            if (keys.begin + j >= a->visible[queries.begin + i])
                t->dscores[i * FEATURE_ROWS + j] = 0;
}

static void query_block_backward(void *argument, size_t block, int worker)
{
    const struct work *w = argument;
    const struct feature_attention *a = w->a;
    struct tiles t = tiles_of(w, worker);
    struct feature_span queries = block_span(a->num_queries, block);
    size_t features = a->map.count, d_v = a->value_dim;
    const float *sums = w->saved.sums;
    float *gradients = w->scratch.gradients + block * sums_size(a);
    memset(gradients, 0, sums_size(a) * sizeof *gradients);
    if (a->causal)
        sums = memcpy(t.sums, w->saved.sums + block * sums_size(a), sums_size(a) * sizeof *sums);
    for (size_t begin = queries.begin; begin < queries.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(queries, begin);
        size_t rows = tile.end - tile.begin;
        map_forward(a, FEATURE_QUERY, tile, t.phi_query, &t);
        divide(w, tile, &t);
        absorb_gradients(a, tile, &t, gradients, feature_level_after(&a->levels, queries.begin));
        through_sums(a, sums, t.top, d_v, rows, t.dbottom, &t);
        if (a->causal) {
            feature_scale_queries(a->map.kernels, &a->levels, tile,
                                  feature_level_before(&a->levels, tile.begin), t.dphi, features, &t.factors);
            feature_move(a->map.kernels, t.sums, sums_size(a), feature_level_before(&a->levels, tile.begin),
                         feature_level_before(&a->levels, tile.end));
        }
        struct feature_span all = a->causal ? new_keys(a, tile) : (struct feature_span){0, 0};
        for (size_t first = all.begin; first < all.end; first += FEATURE_ROWS) {
            struct feature_span keys = tile_span(all, first);
            map_forward(a, FEATURE_KEY, keys, t.phi_key, &t);
            dscores_of(a, tile, keys, &t);
            a->map.kernels->tiles.product(t.dphi, features, t.dscores, FEATURE_ROWS, 1, t.phi_key, features,
                                          rows, features, keys.end - keys.begin, true);
            absorb(a, keys, t.phi_key, t.sums, feature_level_before(&a->levels, tile.end), &t);
        }
        a->map.backward(&a->map, FEATURE_QUERY, view_row(a->query, tile.begin), a->query.stride, rows,
                        t.phi_query, t.dphi, view_row(w->dquery, tile.begin), w->dquery.stride, t.of_map);
    }
}

/* As add_blocks, from the last block to the first: causal, of the queries after each block. */
static void add_gradients(const struct feature_attention *a, float *gradients, size_t blocks, float *spare)
{
    size_t size = sums_size(a);
    if (!a->causal) {
        add_blocks(a, gradients, blocks, spare);
        return;
    }
    memset(spare, 0, size * sizeof *spare);
    for (size_t b = blocks; b-- > 0;) {
        float *own = gradients + b * size;
        struct feature_span queries = block_span(a->num_queries, b);
        exchange(spare, own, size);
        a->map.kernels->rows.axpy(spare,
                                  feature_factor(a->map.kernels,
                                                 feature_level_after(&a->levels, queries.begin),
                                                 feature_level_after(&a->levels, queries.end)),
                                  own, size);
    }
}

/* The gradients of some keys from sums of the queries that all see them, at `level`, and, causal, from the
 * queries of a tile. */
static void key_tile_backward(const struct work *w, struct feature_span keys, const float *sums, double level,
                              const struct feature_span *queries, const struct tiles *t)
{
    const struct feature_attention *a = w->a;
    const struct kernels *kernels = a->map.kernels;
    size_t features = a->map.count, d_v = a->value_dim, rows = keys.end - keys.begin;
    map_forward(a, FEATURE_KEY, keys, t->phi_key, t);
    through_sums(a, sums, view_row(a->value, keys.begin), a->value.stride, rows, NULL, t);
    const float *phi = t->phi_key;
    if (a->levels.key != NULL) {
        feature_scale_keys(a->map.kernels, &a->levels, keys, level, t->dphi, features, &t->factors);
        phi = memcpy(t->turned, t->phi_key, rows * features * sizeof *t->turned);
        feature_scale_keys(a->map.kernels, &a->levels, keys, level, t->turned, features, &t->factors);
    }
    kernels->tiles.product(view_row(w->dvalue, keys.begin), w->dvalue.stride, phi, features, 1, sums, d_v,
                           rows, d_v, features, true);
    if (queries != NULL) {
        size_t count = queries->end - queries->begin;
        dscores_of(a, *queries, keys, t);
        kernels->tiles.product(t->dphi, features, t->dscores, 1, FEATURE_ROWS, t->phi_query, features, rows,
                               features, count, true);
        scores_of(a, *queries, keys, t);
        kernels->tiles.product(view_row(w->dvalue, keys.begin), w->dvalue.stride, t->scores, 1, FEATURE_ROWS,
                               t->top, d_v, rows, d_v, count, true);
    }
    if (a->dkey_level != NULL)
        kernels->rows.dots(a->dkey_level + keys.begin, t->phi_key, features, t->dphi, features, rows,
                           features);
    a->map.backward(&a->map, FEATURE_KEY, view_row(a->key, keys.begin), a->key.stride, rows, t->phi_key,
                    t->dphi, view_row(w->dkey, keys.begin), w->dkey.stride, t->of_map);
}

static void key_block_backward(void *argument, size_t block, int worker)
{
    const struct work *w = argument;
    const struct feature_attention *a = w->a;
    struct tiles t = tiles_of(w, worker);
    if (!a->causal) {
        struct feature_span keys = block_span(a->num_keys, block);
        for (size_t begin = keys.begin; begin < keys.end; begin += FEATURE_ROWS)
            key_tile_backward(w, tile_span(keys, begin), w->scratch.gradients,
                              feature_level_after(&a->levels, 0), NULL, &t);
        return;
    }
    struct feature_span queries = block_span(a->num_queries, block);
    memcpy(t.sums, w->scratch.gradients + block * sums_size(a), sums_size(a) * sizeof *t.sums);
    size_t tiles = (queries.end - queries.begin + FEATURE_ROWS - 1) / FEATURE_ROWS;
    for (size_t tile = tiles; tile-- > 0;) {
        struct feature_span own = tile_span(queries, queries.begin + tile * FEATURE_ROWS),
                            all = new_keys(a, own);
        map_forward(a, FEATURE_QUERY, own, t.phi_query, &t);
        divide(w, own, &t);
        for (size_t first = all.begin; first < all.end; first += FEATURE_ROWS)
            key_tile_backward(w, tile_span(all, first), t.sums, feature_level_after(&a->levels, own.end),
                              &own, &t);
        feature_move(a->map.kernels, t.sums, sums_size(a), feature_level_after(&a->levels, own.begin),
                     feature_level_after(&a->levels, own.end));
        absorb_gradients(a, own, &t, t.sums, feature_level_after(&a->levels, own.begin));
    }
}

void feature_attention_backward(const struct feature_attention *a, struct view out, struct view dout,
                                struct view dquery, struct view dkey, struct view dvalue, void *scratch)
{
    struct work w = {.a = a,
                     .saved = saved_of(a),
                     .scratch = scratch_of(a, scratch),
                     .out = out,
                     .dout = dout,
                     .dquery = dquery,
                     .dkey = dkey,
                     .dvalue = dvalue};
    struct tiles t = tiles_of(&w, 0);
    if (a->dkey_level != NULL) /* keys that no query sees */
        memset(a->dkey_level, 0, a->num_keys * sizeof *a->dkey_level);
    pool_run(a->pool, query_block_backward, &w, blocks_of(a->num_queries));
    add_gradients(a, w.scratch.gradients, blocks_of(a->num_queries), t.sums);
    pool_run(a->pool, key_block_backward, &w, key_blocks(a));
}
