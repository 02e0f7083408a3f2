/* A tile of keys is mapped at once, scaled in runs of keys between two changes of the level, and added key by
   key: the bits of a product of several keys would depend on the cut where it sums in double before it
   rounds.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_state.h"

#include <math.h>

struct sums {
    float *sums; /* (F, d_v), then (F) */
    double *level;
    uint64_t *keys;
    size_t features, floats, bytes;
};

static struct sums sums_of(const void *options, const struct problem_shape *shape,
                           const struct feature_attention *attention, const void *state)
{
    struct sums s;
    struct arena arena = arena_on((void *)state);
    s.features = attention->map.count(options, shape);
    s.floats = size_sum(size_product(s.features, shape->value_dim), s.features);
    s.sums = arena_take(&arena, s.floats, sizeof *s.sums);
    s.level = arena_take(&arena, 1, sizeof *s.level);
    s.keys = arena_take(&arena, 1, sizeof *s.keys);
    s.bytes = arena.used;
    return s;
}

size_t feature_state_size(const void *options, const struct problem_shape *shape,
                          const struct feature_attention *attention)
{
    return sums_of(options, shape, attention, NULL).bytes;
}

double feature_state_level(const void *options, const struct problem_shape *shape,
                           const struct feature_attention *attention, const void *state, double empty)
{
    struct sums s = sums_of(options, shape, attention, state);
    return *s.keys == 0 ? empty : *s.level;
}

struct scratch {
    float *phi_query, *phi_key; /* (FEATURE_ROWS, F) */
    float *top;                 /* (FEATURE_ROWS, d_v) */
    float *bottom;              /* (FEATURE_ROWS) */
    struct feature_factors factors;
    void *of_map;
    /* for a map that finds levels */
    double *key_level, *level_after; /* (n_k) */
    char *threads;                   /* (workers): phi (FEATURE_ROWS, F), and scratch of the map */
    size_t per_thread, bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape,
                                 const struct feature_attention *attention, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block);
    const struct feature_map *map = &attention->map;
    size_t features = size_product(FEATURE_ROWS, map->count(options, shape)),
           of_map = feature_map_scratch(map, options, shape), levels = map->levels != NULL;
    s.phi_query = arena_take(&arena, features, sizeof(float));
    s.phi_key = arena_take(&arena, features, sizeof(float));
    s.top = arena_take(&arena, size_product(FEATURE_ROWS, shape->value_dim), sizeof(float));
    s.bottom = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    s.factors = feature_factors_take(&arena);
    s.of_map = arena_take(&arena, of_map, 1);
    s.key_level = arena_take(&arena, levels * shape->num_keys, sizeof(double));
    s.level_after = arena_take(&arena, levels * shape->num_keys, sizeof(double));
    s.per_thread = size_sum(size_product(features, sizeof(float)), of_map);
    s.threads = arena_take(&arena, levels * shape->workers, s.per_thread);
    s.bytes = arena.used;
    return s;
}

size_t feature_state_scratch_size(const void *options, const struct problem_shape *shape,
                                  const struct feature_attention *attention)
{
    return scratch_on(options, shape, attention, NULL).bytes;
}

/* A problem and the state that it is added to or reads. */
struct pass {
    const struct problem *problem;
    const struct feature_map *map;
    struct feature_levels levels; /* of the keys */
    float epsilon, floor;
    struct sums sums;
    struct scratch scratch;
};

static void find_levels(void *argument, size_t block, int worker)
{
    const struct pass *p = argument;
    size_t begin = block * FEATURE_BLOCK;
    struct feature_span keys = {begin, size_min(begin + FEATURE_BLOCK, p->problem->key.rows)};
    char *own = p->scratch.threads + (size_t)worker * p->scratch.per_thread;
    feature_find_key_levels(p->problem, p->map, keys, (float *)own,
                            own + FEATURE_ROWS * p->sums.features * sizeof(float), p->scratch.key_level);
}

/* The level of the sums is the largest of their keys. */
static void take_levels(struct pass *p)
{
    size_t num_keys = p->problem->key.rows;
    double level = *p->sums.keys == 0 ? -INFINITY : *p->sums.level;
    pool_run(p->problem->pool, find_levels, p, (num_keys + FEATURE_BLOCK - 1) / FEATURE_BLOCK);
    for (size_t j = 0; j < num_keys; j++)
        p->scratch.level_after[j] = level = fmax(level, p->scratch.key_level[j]);
    p->levels = (struct feature_levels){.key = p->scratch.key_level, .after = p->scratch.level_after};
}

static struct pass open(const struct problem *problem, const struct feature_attention *attention, void *state)
{
    struct pass p = {.problem = problem,
                     .map = &attention->map,
                     .levels = attention->levels,
                     .epsilon = attention->epsilon,
                     .floor = attention->floor,
                     .sums = sums_of(problem->options, &problem->shape, attention, state),
                     .scratch = scratch_on(problem->options, &problem->shape, attention, problem->scratch)};
    if (attention->map.levels != NULL)
        take_levels(&p);
    return p;
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

static void move_level(const struct kernels *kernels, const struct sums *s, double level)
{
    if (*s->keys > 0)
        feature_move(kernels, s->sums, s->floats, *s->level, level);
    *s->level = level;
}

/* Adds keys [begin, end) of a tile whose features are in scratch. They do not change the level. */
static void add_run(const struct pass *p, struct feature_span tile, size_t begin, size_t end)
{
    const struct kernels *kernels = p->problem->kernels;
    const struct sums *s = &p->sums;
    size_t features = s->features, d_v = p->problem->shape.value_dim, count = end - begin;
    float *phi = p->scratch.phi_key + (begin - tile.begin) * features;
    feature_scale_keys(kernels, &p->levels, (struct feature_span){begin, end}, *s->level, phi, features,
                       &p->scratch.factors);
    for (size_t i = 0; i < count; i++, phi += features) {
        kernels->tiles.product(s->sums, d_v, phi, 1, features, view_row(p->problem->value, begin + i), d_v,
                               features, d_v, 1, true);
        kernels->rows.axpy(s->sums + features * d_v, 1, phi, features);
    }
    *s->keys += count;
}

/* Adds keys [begin, end) of a tile. */
static void add_keys(const struct pass *p, struct feature_span tile, size_t begin, size_t end)
{
    while (begin < end) {
        size_t run = end;
        if (p->levels.key != NULL) {
            move_level(p->problem->kernels, &p->sums, p->levels.after[begin]);
            run = begin + 1;
            while (run < end && p->levels.after[run] == *p->sums.level)
                run++;
        }
        add_run(p, tile, begin, run);
        begin = run;
    }
}

static struct feature_span map_keys(const struct pass *p, size_t begin)
{
    struct view key = p->problem->key;
    struct feature_span tile = {begin, size_min(begin + FEATURE_ROWS, key.rows)};
    p->map->forward(p->problem, FEATURE_KEY, view_row(key, begin), key.stride, tile.end - tile.begin,
                    p->scratch.phi_key, p->scratch.of_map);
    return tile;
}

void feature_state_add(const struct problem *problem, const struct feature_attention *attention, void *state)
{
    struct pass p = open(problem, attention, state);
    for (size_t begin = 0; begin < problem->key.rows; begin += FEATURE_ROWS) {
        struct feature_span tile = map_keys(&p, begin);
        add_keys(&p, tile, tile.begin, tile.end);
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

/* Returns the number of rows in the tile. */
static size_t map_queries(const struct pass *p, size_t begin)
{
    struct view query = p->problem->query;
    size_t rows = size_min(FEATURE_ROWS, query.rows - begin);
    p->map->forward(p->problem, FEATURE_QUERY, view_row(query, begin), query.stride, rows,
                    p->scratch.phi_query, p->scratch.of_map);
    return rows;
}

/* Queries from `first` on, whose features are at phi. */
static void read_rows(const struct pass *p, const float *phi, size_t rows, size_t first, struct view out)
{
    const struct kernels *kernels = p->problem->kernels;
    const struct scratch *scratch = &p->scratch;
    const float *sums = p->sums.sums;
    size_t features = p->sums.features, d_v = p->problem->shape.value_dim;
    kernels->tiles.product(scratch->top, d_v, phi, features, 1, sums, d_v, rows, d_v, features, false);
    kernels->tiles.product(scratch->bottom, 1, phi, features, 1, sums + features * d_v, 1, rows, 1, features,
                           false);
    for (size_t i = 0; i < rows; i++) {
        float bottom = scratch->bottom[i] + p->epsilon, *row = view_row(out, first + i);
        bottom = bottom > p->floor ? bottom : p->floor;
        for (size_t c = 0; c < d_v; c++)
            row[c] = scratch->top[i * d_v + c] / bottom;
    }
}

static void read_all(const struct pass *p, struct view out)
{
    for (size_t begin = 0; begin < p->problem->query.rows; begin += FEATURE_ROWS) {
        size_t rows = map_queries(p, begin);
        read_rows(p, p->scratch.phi_query, rows, begin, out);
    }
}

/* Keys and queries in token order. */
static void read_causal(const struct pass *p, struct view out)
{
    const struct problem *problem = p->problem;
    struct feature_span tile = {0, 0};
    for (size_t i = 0, key = 0; i <= problem->query.rows; i++) {
        size_t seen = i < problem->query.rows ? problem->visible[i] : problem->key.rows;
        while (key < seen) {
            if (key == tile.end)
                tile = map_keys(p, key);
            size_t end = size_min(seen, tile.end);
            add_keys(p, tile, key, end);
            key = end;
        }
        if (i == problem->query.rows)
            break;
        if (i % FEATURE_ROWS == 0)
            map_queries(p, i);
        read_rows(p, p->scratch.phi_query + i % FEATURE_ROWS * p->sums.features, 1, i, out);
    }
}

void feature_state_read(const struct problem *problem, const struct feature_attention *attention, void *state,
                        struct view out)
{
    struct pass p = open(problem, attention, state);
    if (problem->shape.causal)
        read_causal(&p, out);
    else
        read_all(&p, out);
}

/* ---- shards -------------------------------------------------------------------------------------------- */

void feature_state_merge(const void *options, const struct problem_shape *shape,
                         const struct feature_attention *attention, void *into, const void *from,
                         double offset)
{
    struct sums to = sums_of(options, shape, attention, into),
                more = sums_of(options, shape, attention, from);
    if (*more.keys == 0)
        return;
    double moved = *more.level + offset, level = *to.keys == 0 ? moved : fmax(*to.level, moved);
    float own = *to.keys == 0 ? 0 : (float)exp(*to.level - level), other = (float)exp(moved - level);
    for (size_t i = 0; i < to.floats; i++)
        to.sums[i] = own * to.sums[i] + other * more.sums[i];
    *to.level = level;
    *to.keys += *more.keys;
}
