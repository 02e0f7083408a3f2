/* Memory, and forward: blocks of keys make their sums, which are added up, and blocks of queries are
   answered. Numerators are computed in the rows of the output.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "parts/features/feature_attention_parts.h"

/* ---- memory ------------------------------------------------------------------------------------------- */

static size_t take_tiles(const struct feature_pass *p, void *block, struct feature_tiles *t)
{
    struct arena arena = arena_on(block);
    size_t features = size_product(FEATURE_ROWS, p->features), values = size_product(FEATURE_ROWS, p->d_v);
    t->phi_query = arena_take(&arena, features, sizeof(float));
    t->phi_key = arena_take(&arena, features, sizeof(float));
    t->dphi = arena_take(&arena, features, sizeof(float));
    t->transposed = arena_take(&arena, size_max(features, values), sizeof(float));
    t->scores = arena_take(&arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    t->dscores = arena_take(&arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    t->inverse = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    t->dtop = arena_take(&arena, values, sizeof(float));
    t->dbottom = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    t->factors = feature_factors_take(&arena);
    t->sums = arena_take(&arena, p->sums_size, sizeof(float));
    t->back = arena_take(&arena, size_product(p->features, p->d_v), sizeof(float));
    t->of_map = arena_take(&arena, p->map_scratch, 1);
    return arena.used;
}

struct feature_tiles feature_tiles_of(const struct feature_pass *p, int worker)
{
    struct feature_tiles t;
    take_tiles(p, p->threads + (size_t)worker * p->per_thread, &t);
    return t;
}

struct feature_pass feature_pass_on(const void *options, const struct problem_shape *shape,
                                    const struct feature_attention *attention, void *saved, void *scratch)
{
    const struct feature_map *map = &attention->map;
    struct feature_pass p = {.a = *attention};
    struct feature_tiles tiles;
    struct arena keep = arena_on(saved), work = arena_on(scratch);
    size_t levels = map->levels != NULL;
    p.features = map->count(options, shape);
    p.d_v = shape->value_dim;
    p.sums_size = size_sum(size_product(p.features, p.d_v), p.features);
    p.map_scratch = feature_map_scratch(map, options, shape);
    p.per_thread = take_tiles(&p, NULL, &tiles);
    p.bottom = arena_take(&keep, shape->num_queries, sizeof *p.bottom);
    p.sums = arena_take(&keep, size_product(key_blocks(shape), p.sums_size), sizeof *p.sums);
    p.found = arena_take(&keep, levels * shape->num_keys, sizeof *p.found);
    p.query_level = arena_take(&work, levels * shape->num_queries, sizeof *p.query_level);
    p.gradients =
        arena_take(&work, size_product(feature_blocks(shape->num_queries), p.sums_size), sizeof *p.gradients);
    p.threads = arena_take(&work, size_product(shape->workers, p.per_thread), 1);
    p.saved_bytes = keep.used;
    p.scratch_bytes = work.used;
    return p;
}

struct feature_pass feature_pass_of(const struct problem *problem, const struct feature_attention *attention)
{
    struct feature_pass p =
        feature_pass_on(problem->options, &problem->shape, attention, problem->saved, problem->scratch);
    p.problem = problem;
    p.kernels = problem->kernels;
    if (attention->map.levels != NULL)
        p.a.levels = (struct feature_levels){.key = p.found, .query = p.query_level};
    return p;
}

size_t feature_attention_saved_size(const void *options, const struct problem_shape *shape,
                                    const struct feature_attention *attention)
{
    return feature_pass_on(options, shape, attention, NULL, NULL).saved_bytes;
}

size_t feature_attention_scratch_size(const void *options, const struct problem_shape *shape,
                                      const struct feature_attention *attention)
{
    return feature_pass_on(options, shape, attention, NULL, NULL).scratch_bytes;
}

/* ---- keys --------------------------------------------------------------------------------------------- */

/* True if the levels of keys are found while their sums are made. */
static bool finds_on_the_way(const struct feature_pass *p)
{
    return p->a.map.levels != NULL && !p->problem->shape.causal;
}

static void find_levels(void *argument, size_t block, int worker)
{
    const struct feature_pass *p = argument;
    struct feature_tiles t = feature_tiles_of(p, worker);
    feature_find_key_levels(p->problem, &p->a.map, block_span(p->problem->shape.num_keys, block), t.phi_key,
                            t.of_map, p->found);
}

static double largest_level(const struct feature_pass *p, struct feature_span keys)
{
    double level = p->found[keys.begin];
    for (size_t j = keys.begin + 1; j < keys.end; j++)
        level = fmax(level, p->found[j]);
    return level;
}

/* Finds the levels of a tile of keys and moves the sums of the keys before it to the largest so far,
   `*level`. */
static void rise(const struct feature_pass *p, struct feature_span tile, float *sums, double *level,
                 const struct feature_tiles *t)
{
    p->a.map.levels(p->problem, tile.end - tile.begin, t->of_map, p->found + tile.begin);
    double high = fmax(*level, largest_level(p, tile));
    if (*level > -INFINITY)
        feature_move(p->kernels, sums, p->sums_size, *level, high);
    *level = high;
}

static void sum_keys(void *argument, size_t block, int worker)
{
    const struct feature_pass *p = argument;
    struct feature_tiles t = feature_tiles_of(p, worker);
    struct feature_span keys = key_span(p->problem, block);
    float *sums = p->sums + block * p->sums_size;
    bool finds = finds_on_the_way(p);
    double level = finds ? -INFINITY : block_level(p, block);
    memset(sums, 0, p->sums_size * sizeof *sums);
    for (size_t begin = keys.begin; begin < keys.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(keys, begin);
        map_forward(p, FEATURE_KEY, tile, t.phi_key, &t);
        if (finds)
            rise(p, tile, sums, &level, &t);
        absorb(p, tile, t.phi_key, sums, level, &t);
    }
}

/* The sums of all blocks in the first, at the largest level of all keys. */
static void add_found(const struct feature_pass *p, size_t blocks)
{
    size_t size = p->sums_size;
    double level = largest_level(p, (struct feature_span){0, p->problem->shape.num_keys});
    feature_move(p->kernels, p->sums, size, largest_level(p, key_span(p->problem, 0)), level);
    for (size_t b = 1; b < blocks; b++)
        p->kernels->rows.axpy(p->sums,
                              feature_factor(p->kernels, largest_level(p, key_span(p->problem, b)), level),
                              p->sums + b * size, size);
}

/* Of the blocks before each, in its place. */
static void add_before(const struct feature_pass *p, size_t blocks, float *spare)
{
    size_t size = p->sums_size;
    memset(spare, 0, size * sizeof *spare);
    for (size_t b = 0; b < blocks; b++) {
        float *own = p->sums + b * size;
        double before = level_before(p, b * FEATURE_BLOCK);
        exchange(spare, own, size);
        p->kernels->rows.axpy(spare, feature_factor(p->kernels, before, block_level(p, b)), own, size);
    }
}

/* ---- queries ------------------------------------------------------------------------------------------ */

/* Adds new keys to the numerators and denominators of the queries that see them first, and then to the
   running sums. */
static void answer_new(const struct feature_pass *p, struct feature_span queries, float *bottom,
                       const struct feature_tiles *t)
{
    struct feature_span all = new_keys(p->problem, queries);
    struct view top = p->out, value = p->problem->value;
    size_t rows = queries.end - queries.begin;
    double level = level_before(p, queries.end);
    feature_move(p->kernels, t->sums, p->sums_size, level_before(p, queries.begin), level);
    for (size_t begin = all.begin; begin < all.end; begin += FEATURE_ROWS) {
        struct feature_span keys = tile_span(all, begin);
        size_t cols = keys.end - keys.begin;
        map_forward(p, FEATURE_KEY, keys, t->phi_key, t);
        scores_of(p, queries, keys, t);
        p->kernels->tiles.product(view_row(top, queries.begin), top.stride, t->scores, FEATURE_ROWS, 1,
                                  view_row(value, keys.begin), value.stride, rows, p->d_v, cols, true);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++)
                bottom[i] += t->scores[i * FEATURE_ROWS + j];
        absorb(p, keys, t->phi_key, t->sums, level, t);
    }
}

static void answer_block(void *argument, size_t block, int worker)
{
    const struct feature_pass *p = argument;
    const struct feature_levels *levels = &p->a.levels;
    const struct kernels *kernels = p->kernels;
    struct feature_tiles t = feature_tiles_of(p, worker);
    struct feature_span queries = block_span(p->problem->shape.num_queries, block);
    size_t features = p->features, d_v = p->d_v;
    bool causal = p->problem->shape.causal;
    const float *sums = p->sums;
    if (causal)
        sums = memcpy(t.sums, p->sums + block * p->sums_size, p->sums_size * sizeof *sums);
    for (size_t begin = queries.begin; begin < queries.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(queries, begin);
        size_t rows = tile.end - tile.begin, ld_out = p->out.stride;
        float *bottom = p->bottom + tile.begin, *out = view_row(p->out, tile.begin);
        map_forward(p, FEATURE_QUERY, tile, t.phi_query, &t);
        kernels->tiles.product(out, ld_out, t.phi_query, features, 1, sums, d_v, rows, d_v, features, false);
        kernels->rows.dots(bottom, t.phi_query, features, sums + features * d_v, 0, rows, features);
        if (causal) {
            double level = level_before(p, tile.begin);
            feature_scale_queries(kernels, levels, tile, level, out, ld_out, d_v, &t.factors);
            feature_scale_queries(kernels, levels, tile, level, bottom, 1, 1, &t.factors);
            answer_new(p, tile, bottom, &t);
        }
        for (size_t i = 0; i < rows; i++) {
            bottom[i] += p->a.epsilon;
            bottom[i] = bottom[i] > p->a.floor ? bottom[i] : p->a.floor;
            t.inverse[i] = 1 / bottom[i];
        }
        kernels->rows.scale(out, ld_out, t.inverse, rows, d_v);
    }
}

void feature_attention_forward(const struct problem *problem, const struct feature_attention *attention,
                               struct view out)
{
    const struct problem_shape *shape = &problem->shape;
    struct feature_pass p = feature_pass_of(problem, attention);
    size_t blocks = key_blocks(shape);
    p.out = out;
    if (attention->map.levels != NULL && shape->causal) {
        pool_run(problem->pool, find_levels, &p, feature_blocks(shape->num_keys));
        feature_find_query_levels(problem, p.found, p.query_level);
    }
    pool_run(problem->pool, sum_keys, &p, blocks);
    if (shape->causal)
        add_before(&p, blocks, feature_tiles_of(&p, 0).sums);
    else if (finds_on_the_way(&p))
        add_found(&p, blocks);
    else
        add_up(&p, p.sums, blocks);
    pool_run(problem->pool, answer_block, &p, feature_blocks(shape->num_queries));
}
