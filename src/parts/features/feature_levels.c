/* Exponentials of differences of levels, which are taken in double.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_levels.h"

#include <math.h>

double feature_level_before(const struct feature_levels *levels, size_t i)
{
    return levels->query == NULL ? 0 : levels->query[i == 0 ? 0 : i - 1];
}

double feature_level_after(const struct feature_levels *levels, size_t i, size_t num_queries)
{
    return levels->query == NULL ? 0 : levels->query[size_min(i, num_queries - 1)];
}

/* x = exp(x). */
static void exponentials(const struct kernels *kernels, float *x, size_t count)
{
    const float zero = 0;
    kernels->softmax.exp(x, count, x, count, 1, count, 1, &zero, 0);
}

float feature_factor(const struct kernels *kernels, double low, double high)
{
    float factor = (float)(low - high);
    exponentials(kernels, &factor, 1);
    return low == high ? 1 : factor;
}

void feature_move(const struct kernels *kernels, float *sums, size_t count, double low, double high)
{
    float factor = feature_factor(kernels, low, high);
    if (low != high)
        kernels->rows.scale(sums, count, &factor, 1, count);
}

struct feature_factors feature_factors_take(struct arena *arena)
{
    struct feature_factors f;
    f.factor = arena_take(arena, FEATURE_ROWS, sizeof(float));
    f.shift = arena_take(arena, FEATURE_ROWS, sizeof(float));
    f.decay = arena_take(arena, (size_t)FEATURE_ROWS * FEATURE_ROWS, sizeof(float));
    return f;
}

void feature_scale_keys(const struct kernels *kernels, const struct feature_levels *levels,
                        struct feature_span keys, double level, float *x, size_t cols,
                        const struct feature_factors *f)
{
    size_t rows = keys.end - keys.begin;
    if (levels->key == NULL)
        return;
    for (size_t i = 0; i < rows; i++)
        f->factor[i] = (float)(levels->key[keys.begin + i] - level);
    exponentials(kernels, f->factor, rows);
    kernels->rows.scale(x, cols, f->factor, rows, cols);
}

void feature_scale_queries(const struct kernels *kernels, const struct feature_levels *levels,
                           struct feature_span queries, double level, float *x, size_t ld_x, size_t cols,
                           const struct feature_factors *f)
{
    size_t rows = queries.end - queries.begin;
    if (levels->query == NULL)
        return;
    for (size_t i = 0; i < rows; i++)
        f->factor[i] = (float)(level - levels->query[queries.begin + i]);
    exponentials(kernels, f->factor, rows);
    kernels->rows.scale(x, ld_x, f->factor, rows, cols);
}

void feature_scale_pairs(const struct kernels *kernels, const struct feature_levels *levels,
                         struct feature_span queries, struct feature_span keys, float *x,
                         const struct feature_factors *f)
{
    size_t rows = queries.end - queries.begin, cols = keys.end - keys.begin;
    if (levels->query == NULL)
        return;
    double level = levels->query[queries.begin];
    for (size_t j = 0; j < cols; j++)
        f->factor[j] = (float)(levels->key[keys.begin + j] - level);
    for (size_t i = 0; i < rows; i++)
        f->shift[i] = (float)(levels->query[queries.begin + i] - level);
    kernels->softmax.exp(f->decay, FEATURE_ROWS, f->factor, 0, rows, cols, 1, f->shift, 0);
    for (size_t i = 0; i < rows; i++)
        kernels->rows.multiply(x + i * FEATURE_ROWS, f->decay + i * FEATURE_ROWS, cols);
}

void feature_find_key_levels(const struct problem *problem, const struct feature_map *map,
                             struct feature_span keys, float *phi, void *scratch, double *key_level)
{
    for (size_t begin = keys.begin; begin < keys.end; begin += FEATURE_ROWS) {
        size_t rows = size_min(FEATURE_ROWS, keys.end - begin);
        map->project(problem, view_row(problem->key, begin), problem->key.stride, rows, phi, scratch);
        map->levels(problem, rows, scratch, key_level + begin);
    }
}

void feature_find_query_levels(const struct problem *problem, const double *key_level, double *query_level)
{
    double level = key_level[0];
    for (size_t i = 0, key = 0; i < problem->shape.num_queries; i++) {
        for (; key < problem_seen(problem, i); key++)
            level = fmax(level, key_level[key]);
        query_level[i] = level;
    }
}
