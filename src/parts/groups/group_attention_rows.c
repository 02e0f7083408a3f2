/* Blocks of rows on the pool.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/group_attention_rows.h"

#include <math.h>
#include <string.h>

#include "parts/tiles/tile_products.h"

enum { ROWS = 64 /* merged per unit of work */ };

static size_t units_of(size_t rows)
{
    return (rows + ROWS - 1) / ROWS;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct group_forward_places group_forward_places_take(struct arena *arena, const struct problem_shape *shape,
                                                      const struct group_sizes *sizes)
{
    struct group_forward_places places;
    places.parts.result =
        arena_take(arena, size_product(sizes->query_places, shape->value_dim), sizeof(float));
    places.parts.max = arena_take(arena, sizes->query_places, sizeof(float));
    places.parts.sum = arena_take(arena, sizes->query_places, sizeof(float));
    places.queries = places_take(arena, shape->num_queries, sizes->query_places);
    return places;
}

static struct group_forward_places forward_places(const struct problem_shape *shape,
                                                  const struct group_sizes *sizes, void *scratch)
{
    struct arena arena = arena_on(scratch);
    return group_forward_places_take(&arena, shape, sizes);
}

struct group_parts group_parts(const struct problem_shape *shape, const struct group_sizes *sizes,
                               void *scratch)
{
    return forward_places(shape, sizes, scratch).parts;
}

struct merging {
    const struct problem *problem;
    const struct group_lists *lists;
    struct group_forward_places places;
    struct view out;
};

/* Merges the places of a query: one softmax over their maxima and sums, and the weighted results. */
static void merge_query(const struct merging *merging, size_t i)
{
    const struct problem *problem = merging->problem;
    const struct group_lists *lists = merging->lists;
    const struct group_parts *parts = &merging->places.parts;
    const struct places *places = &merging->places.queries;
    const uint32_t *place = places->place + places->start[i];
    size_t count = places->start[i + 1] - places->start[i], d_v = problem->shape.value_dim;
    float most = SOFTMAX_ROWS_LEAST, total = 0, scale = score_scale(problem->shape.head_dim),
          *out = view_row(merging->out, i);
    memset(out, 0, d_v * sizeof *out);
    for (size_t p = 0; p < count; p++)
        most = parts->max[place[p]] > most ? parts->max[place[p]] : most;
    for (size_t p = 0; p < count; p++) {
        float *weight = parts->max + place[p]; /* max holds the weight from here on */
        *weight = expf(scale * (*weight - most));
        total += parts->sum[place[p]] * *weight;
    }
    lists->rows.max[i] = most;
    lists->rows.log_sum[i] = total == 0 ? 0 : logf(total);
    if (total == 0 && sight_is_by_token(lists->sight))
        memcpy(out, view_row(problem->value, i), d_v * sizeof *out);
    if (total == 0)
        return;
    for (size_t p = 0; p < count; p++)
        problem->kernels->rows.axpy(out, parts->max[place[p]] / total, parts->result + place[p] * d_v, d_v);
}

static void merge_rows(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct merging *merging = argument;
    const struct problem_shape *shape = &merging->problem->shape;
    size_t end = size_min((index + 1) * ROWS, shape->num_queries), d_v = shape->value_dim;
    const uint32_t *start = merging->places.queries.start, *place = merging->places.queries.place;
    for (size_t i = index * ROWS; i < end; i++) {
        for (size_t p = start[i] + GROUP_AHEAD; p < start[i + 1] + GROUP_AHEAD && p < start[end]; p++)
            view_prefetch(view_of(merging->places.parts.result, 0, d_v), place[p]);
        merge_query(merging, i);
    }
}

void group_rows_forward(const struct problem *problem, const struct group_lists *lists, struct view out,
                        void *scratch)
{
    const struct problem_shape *shape = &problem->shape;
    struct merging merging = {problem, lists, forward_places(shape, &lists->sizes, scratch), out};
    places_find(&merging.places.queries, &lists->queries, shape->num_queries);
    pool_run(problem->pool, merge_rows, &merging, units_of(shape->num_queries));
}

/* ---- backward ------------------------------------------------------------------------------------------ */

struct group_backward_places group_backward_places_take(struct arena *arena,
                                                        const struct problem_shape *shape,
                                                        const struct group_sizes *sizes)
{
    struct group_backward_places places;
    size_t d = shape->head_dim, d_v = shape->value_dim;
    places.slopes.query = arena_take(arena, size_product(sizes->query_places, d), sizeof(float));
    places.slopes.key = arena_take(arena, size_product(sizes->key_places, d), sizeof(float));
    places.slopes.value = arena_take(arena, size_product(sizes->key_places, d_v), sizeof(float));
    places.slopes.delta = arena_take(arena, shape->num_queries, sizeof(float));
    places.queries = places_take(arena, shape->num_queries, sizes->query_places);
    places.keys = places_take(arena, shape->num_keys, sizes->key_places);
    return places;
}

static struct group_backward_places backward_places(const struct problem_shape *shape,
                                                    const struct group_sizes *sizes, void *scratch)
{
    struct arena arena = arena_on(scratch);
    return group_backward_places_take(&arena, shape, sizes);
}

struct group_slopes group_slopes(const struct problem_shape *shape, const struct group_sizes *sizes,
                                 void *scratch)
{
    return backward_places(shape, sizes, scratch).slopes;
}

struct delta_pass {
    const struct problem *problem;
    struct view out, dout;
    float *delta;
};

static void delta_rows(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct delta_pass *pass = argument;
    const struct problem *problem = pass->problem;
    size_t first = index * ROWS, rows = size_min(ROWS, problem->shape.num_queries - first);
    problem->kernels->rows.dots(pass->delta + first, view_row(pass->dout, first), pass->dout.stride,
                                view_row(pass->out, first), pass->out.stride, rows, problem->shape.value_dim);
}

void group_deltas(const struct problem *problem, struct view out, struct view dout, float *delta)
{
    struct delta_pass pass = {problem, out, dout, delta};
    pool_run(problem->pool, delta_rows, &pass, units_of(problem->shape.num_queries));
}

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
            if (p + GROUP_AHEAD < start[end])
                view_prefetch(view_of(g->parts, 0, cols), place[p + GROUP_AHEAD]);
            g->kernels->rows.axpy(view_row(g->rows, i), 1, g->parts + place[p] * cols, cols);
        }
}

static void add_all_places(const struct problem *problem, const struct places *places, const float *parts,
                           struct view rows)
{
    struct gathering gathering = {problem->kernels, places, parts, rows};
    pool_run(problem->pool, add_places, &gathering, units_of(rows.rows));
}

void group_rows_backward(const struct problem *problem, const struct group_lists *lists,
                         const struct problem_gradients *gradients, void *scratch)
{
    const struct problem_shape *shape = &problem->shape;
    struct group_backward_places places = backward_places(shape, &lists->sizes, scratch);
    places_find(&places.queries, &lists->queries, shape->num_queries);
    places_find(&places.keys, &lists->keys, shape->num_keys);
    add_all_places(problem, &places.queries, places.slopes.query, gradients->query);
    add_all_places(problem, &places.keys, places.slopes.key, gradients->key);
    add_all_places(problem, &places.keys, places.slopes.value, gradients->value);
}
