/* Backward: as forward with the gradients of the sums, from queries to keys: blocks of queries make the
   gradients of the sums that they read, which are added up, and then the keys get theirs.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_attention_parts.h"

/* The gradients of numerators and denominators of some queries: dout / bottom, -(dout . out) / bottom or 0 at
   the floor. The level of a query scales both sides of its ratio, so it has a gradient only at the floor. */
static void divide(const struct feature_pass *p, struct feature_span queries, const struct feature_tiles *t)
{
    size_t rows = queries.end - queries.begin, d_v = p->d_v;
    p->kernels->rows.dots(t->dbottom, view_row(p->dout, queries.begin), p->dout.stride,
                          view_row(p->out, queries.begin), p->out.stride, rows, d_v);
    for (size_t i = 0; i < rows; i++) {
        const float *dout = view_row(p->dout, queries.begin + i);
        float bottom = p->bottom[queries.begin + i], inverse = 1 / bottom;
        bool whole = bottom > p->a.floor;
        if (p->a.dquery_level != NULL)
            p->a.dquery_level[queries.begin + i] = whole ? 0 : -t->dbottom[i];
        t->dbottom[i] *= whole ? -inverse : 0;
        for (size_t c = 0; c < d_v; c++)
            t->dtop[i * d_v + c] = dout[c] * inverse;
    }
}

/* sums += f(q) dtop^T and f(q) dbottom, the gradients of S and z, at `level`. Overwrites dphi if there are
   levels. */
static void absorb_gradients(const struct feature_pass *p, struct feature_span queries,
                             const struct feature_tiles *t, float *sums, double level)
{
    size_t features = p->features, rows = queries.end - queries.begin;
    const float *phi = t->phi_query;
    if (p->a.levels.query != NULL) {
        phi = memcpy(t->dphi, t->phi_query, rows * features * sizeof *t->dphi);
        feature_scale_queries(p->kernels, &p->a.levels, queries, level, t->dphi, features, features,
                              &t->factors);
    }
    p->kernels->tiles.product(sums, p->d_v, phi, 1, features, t->dtop, p->d_v, features, p->d_v, rows, true);
    for (size_t i = 0; i < rows; i++)
        p->kernels->rows.axpy(sums + features * p->d_v, t->dbottom[i], phi + i * features, features);
}

/* dphi (rows, F) = x S^T + scale z, with scale[i] of row i, or 1 if it is NULL. */
static void through_sums(const struct feature_pass *p, const float *sums, const float *x, size_t ld_x,
                         size_t rows, const float *scale, const struct feature_tiles *t)
{
    size_t features = p->features, d_v = p->d_v;
    p->kernels->tiles.transpose(t->back, features, sums, d_v, features, d_v);
    p->kernels->tiles.product(t->dphi, features, x, ld_x, 1, t->back, features, rows, features, d_v, false);
    for (size_t i = 0; i < rows; i++)
        p->kernels->rows.axpy(t->dphi + i * features, scale == NULL ? 1 : scale[i], sums + features * d_v,
                              features);
}

/* dscores (queries, keys) = dtop v^T + dbottom, 0 where a query does not see a key. */
static void dscores_of(const struct feature_pass *p, struct feature_span queries, struct feature_span keys,
                       const struct feature_tiles *t)
{
    size_t d_v = p->d_v, rows = queries.end - queries.begin, cols = keys.end - keys.begin;
    const size_t *seen = p->problem->visible + queries.begin;
    p->kernels->tiles.transpose(t->transposed, FEATURE_ROWS, view_row(p->problem->value, keys.begin),
                                p->problem->value.stride, cols, d_v);
    p->kernels->tiles.product(t->dscores, FEATURE_ROWS, t->dtop, d_v, 1, t->transposed, FEATURE_ROWS, rows,
                              cols, d_v, false);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            t->dscores[i * FEATURE_ROWS + j] += t->dbottom[i];
    feature_scale_pairs(p->kernels, &p->a.levels, queries, keys, t->dscores, &t->factors);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            if (keys.begin + j >= seen[i])
                t->dscores[i * FEATURE_ROWS + j] = 0;
}

static void query_block_backward(void *argument, size_t block, int worker)
{
    const struct feature_pass *p = argument;
    struct feature_tiles t = feature_tiles_of(p, worker);
    struct feature_span queries = block_span(p->problem->shape.num_queries, block);
    struct view query = p->problem->query, dquery = p->to->query;
    size_t features = p->features, d_v = p->d_v;
    bool causal = p->problem->shape.causal;
    const float *sums = p->sums;
    float *gradients = p->gradients + block * p->sums_size;
    memset(gradients, 0, p->sums_size * sizeof *gradients);
    if (causal)
        sums = memcpy(t.sums, p->sums + block * p->sums_size, p->sums_size * sizeof *sums);
    for (size_t begin = queries.begin; begin < queries.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(queries, begin);
        size_t rows = tile.end - tile.begin;
        map_forward(p, FEATURE_QUERY, tile, t.phi_query, &t);
        divide(p, tile, &t);
        absorb_gradients(p, tile, &t, gradients, level_after(p, queries.begin));
        through_sums(p, sums, t.dtop, d_v, rows, t.dbottom, &t);
        if (causal) {
            feature_scale_queries(p->kernels, &p->a.levels, tile, level_before(p, tile.begin), t.dphi,
                                  features, features, &t.factors);
            feature_move(p->kernels, t.sums, p->sums_size, level_before(p, tile.begin),
                         level_before(p, tile.end));
        }
        struct feature_span all = causal ? new_keys(p->problem, tile) : (struct feature_span){0, 0};
        for (size_t first = all.begin; first < all.end; first += FEATURE_ROWS) {
            struct feature_span keys = tile_span(all, first);
            map_forward(p, FEATURE_KEY, keys, t.phi_key, &t);
            dscores_of(p, tile, keys, &t);
            p->kernels->tiles.product(t.dphi, features, t.dscores, FEATURE_ROWS, 1, t.phi_key, features, rows,
                                      features, keys.end - keys.begin, true);
            absorb(p, keys, t.phi_key, t.sums, level_before(p, tile.end), &t);
        }
        p->a.map.backward(p->problem, FEATURE_QUERY, view_row(query, tile.begin), query.stride, rows,
                          t.phi_query, t.dphi, view_row(dquery, tile.begin), dquery.stride, t.of_map);
    }
}

/* The sums of all blocks in the first; or, causal, of the blocks after each in its place. */
static void add_gradients(const struct feature_pass *p, size_t blocks, float *spare)
{
    size_t size = p->sums_size;
    if (!p->problem->shape.causal) {
        add_up(p, p->gradients, blocks);
        return;
    }
    memset(spare, 0, size * sizeof *spare);
    for (size_t b = blocks; b-- > 0;) {
        float *own = p->gradients + b * size;
        struct feature_span queries = block_span(p->problem->shape.num_queries, b);
        exchange(spare, own, size);
        p->kernels->rows.axpy(
            spare, feature_factor(p->kernels, level_after(p, queries.begin), level_after(p, queries.end)),
            own, size);
    }
}

/* The gradients of some keys from sums of the queries that all see them, at `level`, and, causal, from the
   queries of a tile. */
static void key_tile_backward(const struct feature_pass *p, struct feature_span keys, const float *sums,
                              double level, const struct feature_span *queries, const struct feature_tiles *t)
{
    const struct kernels *kernels = p->kernels;
    struct view key = p->problem->key, value = p->problem->value, dkey = p->to->key, dvalue = p->to->value;
    size_t features = p->features, d_v = p->d_v, rows = keys.end - keys.begin;
    map_forward(p, FEATURE_KEY, keys, t->phi_key, t);
    through_sums(p, sums, view_row(value, keys.begin), value.stride, rows, NULL, t);
    const float *phi = t->phi_key;
    if (p->a.levels.key != NULL) {
        feature_scale_keys(kernels, &p->a.levels, keys, level, t->dphi, features, &t->factors);
        phi = memcpy(t->transposed, t->phi_key, rows * features * sizeof *t->transposed);
        feature_scale_keys(kernels, &p->a.levels, keys, level, t->transposed, features, &t->factors);
    }
    kernels->tiles.product(view_row(dvalue, keys.begin), dvalue.stride, phi, features, 1, sums, d_v, rows,
                           d_v, features, true);
    if (queries != NULL) {
        size_t count = queries->end - queries->begin;
        dscores_of(p, *queries, keys, t);
        kernels->tiles.product(t->dphi, features, t->dscores, 1, FEATURE_ROWS, t->phi_query, features, rows,
                               features, count, true);
        scores_of(p, *queries, keys, t);
        kernels->tiles.product(view_row(dvalue, keys.begin), dvalue.stride, t->scores, 1, FEATURE_ROWS,
                               t->dtop, d_v, rows, d_v, count, true);
    }
    if (p->a.dkey_level != NULL)
        kernels->rows.dots(p->a.dkey_level + keys.begin, t->phi_key, features, t->dphi, features, rows,
                           features);
    p->a.map.backward(p->problem, FEATURE_KEY, view_row(key, keys.begin), key.stride, rows, t->phi_key,
                      t->dphi, view_row(dkey, keys.begin), dkey.stride, t->of_map);
}

static void key_block_backward(void *argument, size_t block, int worker)
{
    const struct feature_pass *p = argument;
    struct feature_tiles t = feature_tiles_of(p, worker);
    if (!p->problem->shape.causal) {
        struct feature_span keys = block_span(p->problem->shape.num_keys, block);
        for (size_t begin = keys.begin; begin < keys.end; begin += FEATURE_ROWS)
            key_tile_backward(p, tile_span(keys, begin), p->gradients, level_after(p, 0), NULL, &t);
        return;
    }
    struct feature_span queries = block_span(p->problem->shape.num_queries, block);
    memcpy(t.sums, p->gradients + block * p->sums_size, p->sums_size * sizeof *t.sums);
    size_t tiles = (queries.end - queries.begin + FEATURE_ROWS - 1) / FEATURE_ROWS;
    for (size_t tile = tiles; tile-- > 0;) {
        struct feature_span own = tile_span(queries, queries.begin + tile * FEATURE_ROWS),
                            all = new_keys(p->problem, own);
        map_forward(p, FEATURE_QUERY, own, t.phi_query, &t);
        divide(p, own, &t);
        for (size_t first = all.begin; first < all.end; first += FEATURE_ROWS)
            key_tile_backward(p, tile_span(all, first), t.sums, level_after(p, own.end), &own, &t);
        feature_move(p->kernels, t.sums, p->sums_size, level_after(p, own.begin), level_after(p, own.end));
        absorb_gradients(p, own, &t, t.sums, level_after(p, own.begin));
    }
}

void feature_attention_backward(const struct problem *problem, const struct feature_attention *attention,
                                struct view out, struct view dout, const struct problem_gradients *gradients)
{
    struct feature_pass p = feature_pass_of(problem, attention);
    size_t blocks = feature_blocks(problem->shape.num_queries);
    p.out = out;
    p.dout = dout;
    p.to = gradients;
    if (attention->map.levels != NULL)
        feature_find_query_levels(problem, p.found, p.query_level);
    if (p.a.dkey_level != NULL) /* keys that no query sees */
        memset(p.a.dkey_level, 0, problem->shape.num_keys * sizeof *p.a.dkey_level);
    pool_run(problem->pool, query_block_backward, &p, blocks);
    add_gradients(&p, blocks, feature_tiles_of(&p, 0).sums);
    pool_run(problem->pool, key_block_backward, &p, key_blocks(&problem->shape));
}
