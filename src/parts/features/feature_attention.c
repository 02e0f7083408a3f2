/* Forward: blocks of keys make their sums, which are added up, and blocks of queries are answered. Numerators
   are computed in the rows of the output.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_attention_parts.h"

#include <math.h>

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

/* ---- forward ------------------------------------------------------------------------------------------ */

static double largest_level(const struct feature_attention *a, struct feature_span keys)
{
    double level = a->found_levels[keys.begin];
    for (size_t j = keys.begin + 1; j < keys.end; j++)
        level = fmax(level, a->found_levels[j]);
    return level;
}

/* Finds the levels of a tile of keys and moves the sums of the keys before it to the largest so far,
   `*level`. */
static void rise(const struct feature_attention *a, struct feature_span tile, float *sums, double *level,
                 const struct tiles *t)
{
    a->map.levels(&a->map, tile.end - tile.begin, t->of_map, a->found_levels + tile.begin);
    double high = fmax(*level, largest_level(a, tile));
    if (*level > -INFINITY)
        feature_move(a->map.kernels, sums, sums_size(a), *level, high);
    *level = high;
}

static void sum_keys(void *argument, size_t block, int worker)
{
    const struct work *w = argument;
    const struct feature_attention *a = w->a;
    struct tiles t = tiles_of(w, worker);
    struct feature_span keys = key_span(a, block);
    float *sums = w->saved.sums + block * sums_size(a);
    double level = a->found_levels == NULL ? block_level(a, block) : -INFINITY;
    memset(sums, 0, sums_size(a) * sizeof *sums);
    for (size_t begin = keys.begin; begin < keys.end; begin += FEATURE_ROWS) {
        struct feature_span tile = tile_span(keys, begin);
        map_forward(a, FEATURE_KEY, tile, t.phi_key, &t);
        if (a->found_levels != NULL)
            rise(a, tile, sums, &level, &t);
        absorb(a, tile, t.phi_key, sums, level, &t);
    }
}

/* The sums of all blocks in the first, at the largest level of all keys. */
static void add_found(const struct feature_attention *a, float *sums, size_t blocks)
{
    const struct kernels *kernels = a->map.kernels;
    size_t size = sums_size(a);
    double level = largest_level(a, (struct feature_span){0, a->num_keys});
    feature_move(kernels, sums, size, largest_level(a, key_span(a, 0)), level);
    for (size_t b = 1; b < blocks; b++)
        kernels->rows.axpy(sums, feature_factor(kernels, largest_level(a, key_span(a, b)), level),
                           sums + b * size, size);
}

/* The sums of all blocks in the first; or, causal, of the blocks before each in its place. */
static void add_blocks(const struct feature_attention *a, float *sums, size_t blocks, float *spare)
{
    size_t size = sums_size(a);
    if (!a->causal) {
        if (a->found_levels != NULL)
            add_found(a, sums, blocks);
        else
            add_up(a, sums, blocks);
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

/* Adds new keys to the numerators and denominators of the queries that see them first, and then to the
   running sums. */
static void answer_new(const struct feature_attention *a, struct feature_span queries, struct view top,
                       float *bottom, const struct tiles *t)
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
        a->map.kernels->tiles.product(view_row(top, queries.begin), top.stride, t->scores, FEATURE_ROWS, 1,
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
        size_t rows = tile.end - tile.begin, ld_out = w->out.stride;
        float *bottom = w->saved.bottom + tile.begin, *out = view_row(w->out, tile.begin);
        map_forward(a, FEATURE_QUERY, tile, t.phi_query, &t);
        kernels->tiles.product(out, ld_out, t.phi_query, features, 1, sums, d_v, rows, d_v, features, false);
        kernels->rows.dots(bottom, t.phi_query, features, sums + features * d_v, 0, rows, features);
        if (a->causal) {
            double level = feature_level_before(&a->levels, tile.begin);
            feature_scale_queries(kernels, &a->levels, tile, level, out, ld_out, d_v, &t.factors);
            feature_scale_queries(kernels, &a->levels, tile, level, bottom, 1, 1, &t.factors);
            answer_new(a, tile, w->out, bottom, &t);
        }
        for (size_t i = 0; i < rows; i++) {
            bottom[i] += a->epsilon;
            bottom[i] = bottom[i] > a->floor ? bottom[i] : a->floor;
            t.inverse[i] = 1 / bottom[i];
        }
        kernels->rows.scale(out, ld_out, t.inverse, rows, d_v);
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
