/* Backward: as forward with the gradients of the sums, from queries to keys: blocks of queries make the
   gradients of the sums that they read, which are added up, and then the keys get theirs.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_attention_parts.h"

/* The gradients of numerators and denominators of some queries: dout / bottom, -(dout . out) / bottom or 0 at
   the floor. The level of a query scales both sides of its ratio, so it has a gradient only at the floor. */
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
            t->dtop[i * d_v + c] = dout[c] * inverse;
    }
}

/* sums += f(q) dtop^T and f(q) dbottom, the gradients of S and z, at `level`. Overwrites dphi if there are
   levels. */
static void absorb_gradients(const struct feature_attention *a, struct feature_span queries,
                             const struct tiles *t, float *sums, double level)
{
    size_t features = a->map.count, rows = queries.end - queries.begin;
    const float *phi = t->phi_query;
    if (a->levels.query != NULL) {
        phi = memcpy(t->dphi, t->phi_query, rows * features * sizeof *t->dphi);
        feature_scale_queries(a->map.kernels, &a->levels, queries, level, t->dphi, features, features,
                              &t->factors);
    }
    a->map.kernels->tiles.product(sums, a->value_dim, phi, 1, features, t->dtop, a->value_dim, features,
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
    a->map.kernels->tiles.transpose(t->transposed, FEATURE_ROWS, view_row(a->value, keys.begin),
                                    a->value.stride, cols, d_v);
    a->map.kernels->tiles.product(t->dscores, FEATURE_ROWS, t->dtop, d_v, 1, t->transposed, FEATURE_ROWS,
                                  rows, cols, d_v, false);
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
        through_sums(a, sums, t.dtop, d_v, rows, t.dbottom, &t);
        if (a->causal) {
            feature_scale_queries(a->map.kernels, &a->levels, tile,
                                  feature_level_before(&a->levels, tile.begin), t.dphi, features, features,
                                  &t.factors);
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

/* The sums of all blocks in the first; or, causal, of the blocks after each in its place. */
static void add_gradients(const struct feature_attention *a, float *gradients, size_t blocks, float *spare)
{
    size_t size = sums_size(a);
    if (!a->causal) {
        add_up(a, gradients, blocks);
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
   queries of a tile. */
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
        phi = memcpy(t->transposed, t->phi_key, rows * features * sizeof *t->transposed);
        feature_scale_keys(a->map.kernels, &a->levels, keys, level, t->transposed, features, &t->factors);
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
                               t->dtop, d_v, rows, d_v, count, true);
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
