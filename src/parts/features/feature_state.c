/* A tile of keys is mapped at once, scaled in runs of keys between two changes of the level, and added key by
   key: the bits of a product of several keys would depend on the cut where it sums in double before it
   rounds.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_state.h"

#include <math.h>

#include "base/memory.h"

struct sums {
    float *sums; /* (F, d_v), then (F) */
    double *level;
    uint64_t *keys;
    size_t floats, bytes;
};

static struct sums sums_of(const struct feature_state *state)
{
    struct sums s;
    struct arena arena = arena_on(state->block);
    s.floats = size_sum(size_product(state->map.count, state->value_dim), state->map.count);
    s.sums = arena_take(&arena, s.floats, sizeof *s.sums);
    s.level = arena_take(&arena, 1, sizeof *s.level);
    s.keys = arena_take(&arena, 1, sizeof *s.keys);
    s.bytes = arena.used;
    return s;
}

size_t feature_state_size(const struct feature_state *state)
{
    struct feature_state sized = *state;
    sized.block = NULL;
    return sums_of(&sized).bytes;
}

struct scratch {
    float *phi_query, *phi_key; /* (FEATURE_ROWS, F) */
    float *top;                 /* (FEATURE_ROWS, d_v) */
    float *bottom;              /* (FEATURE_ROWS) */
    struct feature_factors factors;
    void *of_map;
    size_t bytes;
};

static struct scratch scratch_on(const struct feature_state *state, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block);
    size_t features = size_product(FEATURE_ROWS, state->map.count);
    s.phi_query = arena_take(&arena, features, sizeof(float));
    s.phi_key = arena_take(&arena, features, sizeof(float));
    s.top = arena_take(&arena, size_product(FEATURE_ROWS, state->value_dim), sizeof(float));
    s.bottom = arena_take(&arena, FEATURE_ROWS, sizeof(float));
    s.factors = feature_factors_take(&arena);
    s.of_map = arena_take(&arena, state->map.scratch, 1);
    s.bytes = arena.used;
    return s;
}

size_t feature_state_scratch_size(const struct feature_state *state)
{
    return scratch_on(state, NULL).bytes;
}

bool feature_state_is_empty(const struct feature_state *state)
{
    return *sums_of(state).keys == 0;
}

double feature_state_level(const struct feature_state *state)
{
    return *sums_of(state).level;
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

static void move_level(const struct kernels *kernels, const struct sums *s, double level)
{
    if (*s->keys > 0)
        feature_move(kernels, s->sums, s->floats, *s->level, level);
    *s->level = level;
}

/* Adds keys [begin, end) of a tile whose features are in scratch. They do not change the level. */
static void add_run(const struct feature_state *state, const struct sums *s, const struct feature_keys *keys,
                    struct feature_span tile, size_t begin, size_t end, const struct scratch *scratch)
{
    const struct kernels *kernels = state->map.kernels;
    size_t features = state->map.count, d_v = state->value_dim, count = end - begin;
    float *phi = scratch->phi_key + (begin - tile.begin) * features;
    const struct feature_levels levels = {.key = keys->level};
    feature_scale_keys(kernels, &levels, (struct feature_span){begin, end}, *s->level, phi, features,
                       &scratch->factors);
    for (size_t i = 0; i < count; i++, phi += features) {
        kernels->tiles.product(s->sums, d_v, phi, 1, features, view_row(keys->value, begin + i), d_v,
                               features, d_v, 1, true);
        kernels->rows.axpy(s->sums + features * d_v, 1, phi, features);
    }
    *s->keys += count;
}

/* Adds keys [begin, end) of a tile. */
static void add_keys(const struct feature_state *state, const struct sums *s, const struct feature_keys *keys,
                     struct feature_span tile, size_t begin, size_t end, const struct scratch *scratch)
{
    while (begin < end) {
        size_t run = end;
        if (keys->level != NULL) {
            move_level(state->map.kernels, s, keys->level_after[begin]);
            run = begin + 1;
            while (run < end && keys->level_after[run] == *s->level)
                run++;
        }
        add_run(state, s, keys, tile, begin, run, scratch);
        begin = run;
    }
}

static struct feature_span map_keys(const struct feature_state *state, const struct feature_keys *keys,
                                    size_t begin, const struct scratch *scratch)
{
    struct feature_span tile = {begin, size_min(begin + FEATURE_ROWS, keys->key.rows)};
    state->map.forward(&state->map, FEATURE_KEY, view_row(keys->key, begin), keys->key.stride,
                       tile.end - tile.begin, scratch->phi_key, scratch->of_map);
    return tile;
}

void feature_state_add(const struct feature_state *state, const struct feature_keys *keys, void *block)
{
    struct sums s = sums_of(state);
    struct scratch scratch = scratch_on(state, block);
    for (size_t begin = 0; begin < keys->key.rows; begin += FEATURE_ROWS) {
        struct feature_span tile = map_keys(state, keys, begin, &scratch);
        add_keys(state, &s, keys, tile, tile.begin, tile.end, &scratch);
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

static void map_queries(const struct feature_state *state, struct view query, size_t begin, size_t rows,
                        const struct scratch *scratch)
{
    state->map.forward(&state->map, FEATURE_QUERY, view_row(query, begin), query.stride, rows,
                       scratch->phi_query, scratch->of_map);
}

/* Queries from `first` on, whose features are at phi. */
static void read_rows(const struct feature_state *state, const struct sums *s, const float *phi, size_t rows,
                      size_t first, struct view out, const struct scratch *scratch)
{
    const struct kernels *kernels = state->map.kernels;
    size_t features = state->map.count, d_v = state->value_dim;
    kernels->tiles.product(scratch->top, d_v, phi, features, 1, s->sums, d_v, rows, d_v, features, false);
    kernels->tiles.product(scratch->bottom, 1, phi, features, 1, s->sums + features * d_v, 1, rows, 1,
                           features, false);
    for (size_t i = 0; i < rows; i++) {
        float bottom = scratch->bottom[i] + state->epsilon, *row = view_row(out, first + i);
        bottom = bottom > state->floor ? bottom : state->floor;
        for (size_t c = 0; c < d_v; c++)
            row[c] = scratch->top[i * d_v + c] / bottom;
    }
}

void feature_state_read(const struct feature_state *state, struct view query, struct view out, void *block)
{
    struct sums s = sums_of(state);
    struct scratch scratch = scratch_on(state, block);
    for (size_t begin = 0; begin < query.rows; begin += FEATURE_ROWS) {
        size_t rows = size_min(FEATURE_ROWS, query.rows - begin);
        map_queries(state, query, begin, rows, &scratch);
        read_rows(state, &s, scratch.phi_query, rows, begin, out, &scratch);
    }
}

void feature_state_scan(const struct feature_state *state, const struct feature_keys *keys, struct view query,
                        const size_t *visible, struct view out, void *block)
{
    struct sums s = sums_of(state);
    struct scratch scratch = scratch_on(state, block);
    struct feature_span tile = {0, 0};
    for (size_t i = 0, key = 0; i <= query.rows; i++) {
        size_t seen = i < query.rows ? visible[i] : keys->key.rows;
        while (key < seen) {
            if (key == tile.end)
                tile = map_keys(state, keys, key, &scratch);
            size_t end = size_min(seen, tile.end);
            add_keys(state, &s, keys, tile, key, end, &scratch);
            key = end;
        }
        if (i == query.rows)
            break;
        if (i % FEATURE_ROWS == 0)
            map_queries(state, query, i, size_min(FEATURE_ROWS, query.rows - i), &scratch);
        read_rows(state, &s, scratch.phi_query + i % FEATURE_ROWS * state->map.count, 1, i, out, &scratch);
    }
}

/* ---- shards -------------------------------------------------------------------------------------------- */

void feature_state_merge(const struct feature_state *into, const struct feature_state *from, double offset)
{
    struct sums to = sums_of(into), more = sums_of(from);
    if (*more.keys == 0)
        return;
    double moved = *more.level + offset, level = *to.keys == 0 ? moved : fmax(*to.level, moved);
    float own = *to.keys == 0 ? 0 : (float)exp(*to.level - level), other = (float)exp(moved - level);
    for (size_t i = 0; i < to.floats; i++)
        to.sums[i] = own * to.sums[i] + other * more.sums[i];
    *to.level = level;
    *to.keys += *more.keys;
}
