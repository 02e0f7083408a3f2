/* The lists, attention inside them, and the norm around it.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouped.h"

#include <string.h>

#include "parts/groups/group_attention.h"
#include "parts/rows/plain_norm.h"

/* ---- memory -------------------------------------------------------------------------------------------- */

static size_t longest_of(const struct grouped *b, size_t n)
{
    size_t groups = b->capacity.num_groups;
    return b->by_token ? n : b->partition ? (n + groups - 1) / groups : capacity_of(&b->capacity, n);
}

static struct group_sizes sizes_of(const struct problem_shape *shape, const struct grouped *b)
{
    return (struct group_sizes){
        .query_places = grouped_places(b, shape->num_queries),
        .key_places = grouped_places(b, shape->num_keys),
        .longest_key = longest_of(b, shape->num_keys),
        .norm = b->norm,
    };
}

/* Memory of backward, if rows are normed. */
struct memory {
    float *dquery, *dkey; /* (n, d): gradients of normed rows */
    void *norm;           /* (workers, plain_norm_size) */
    void *rest;           /* memory of group_attention */
    size_t bytes;
};

static struct memory backward_memory(const struct problem_shape *shape, bool norm, size_t rest, void *block)
{
    struct memory memory = {0};
    struct arena arena = arena_on(block);
    size_t d = shape->head_dim;
    if (norm) {
        memory.dquery = arena_take(&arena, size_product(shape->num_queries, d), sizeof(float));
        memory.dkey = arena_take(&arena, size_product(shape->num_keys, d), sizeof(float));
        memory.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    memory.rest = arena_take(&arena, rest, 1);
    memory.bytes = arena.used;
    return memory;
}

/* Scores and products share memory: scores are not needed once products start. */
size_t grouped_scratch_size(const struct problem_shape *shape, const struct grouped *grouped)
{
    struct group_sizes sizes = sizes_of(shape, grouped);
    size_t forward = size_max(grouped_members_size(shape, grouped), group_forward_size(shape, &sizes)),
           backward = group_backward_size(shape, &sizes);
    return size_max(forward, backward_memory(shape, grouped->norm, backward, NULL).bytes);
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

static struct plain_norm norm_of(const struct problem *problem, struct view rows, void *scratch)
{
    return (struct plain_norm){
        .kernels = problem->kernels, .pool = problem->pool, .x = rows, .scratch = scratch};
}

enum group_sight grouped_sight(const struct problem_shape *shape, const struct grouped *b)
{
    return !shape->causal ? SIGHT_ALL : b->by_token ? SIGHT_WINDOW : SIGHT_PAST;
}

struct attending {
    float *query, *key; /* (n, d): normed */
    void *norm;         /* (workers, plain_norm_size) */
    size_t bytes;
};

static struct attending attending_on(const struct problem_shape *shape, bool norm, void *block)
{
    struct attending attending = {0};
    struct arena arena = arena_on(block);
    size_t d = shape->head_dim;
    if (norm) {
        attending.query = arena_take(&arena, size_product(shape->num_queries, d), sizeof(float));
        attending.key = arena_take(&arena, size_product(shape->num_keys, d), sizeof(float));
        attending.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    attending.bytes = arena.used;
    return attending;
}

size_t grouped_attending_size(const struct problem_shape *shape, const struct grouped *grouped)
{
    return attending_on(shape, grouped->norm, NULL).bytes;
}

void grouped_attending(const struct problem *problem, const struct grouped *grouped, struct view *query,
                       struct view *key, void *scratch)
{
    *query = problem->query;
    *key = problem->key;
    if (!grouped->norm)
        return;
    struct attending attending = attending_on(&problem->shape, true, scratch);
    struct plain_norm queries = norm_of(problem, problem->query, attending.norm),
                      keys = norm_of(problem, problem->key, attending.norm);
    plain_norm_forward(&queries, attending.query);
    plain_norm_forward(&keys, attending.key);
    *query = view_of(attending.query, query->rows, query->cols);
    *key = view_of(attending.key, key->rows, key->cols);
}

static struct group_lists lists_of(const struct problem *problem, const struct grouped *b)
{
    struct grouped_saved saved = grouped_saved_on(&problem->shape, b, problem->saved);
    return (struct group_lists){
        .sizes = sizes_of(&problem->shape, b),
        .sight = grouped_sight(&problem->shape, b),
        .window = b->capacity,
        .queries = saved.queries,
        .keys = saved.keys,
        .rows = saved.rows,
    };
}

void grouped_forward(const struct problem *problem, const struct grouped *grouped, struct view out)
{
    grouped_members(problem, grouped, problem->scratch);
    struct group_lists lists = lists_of(problem, grouped);
    group_forward(problem, &lists, out, problem->scratch);
}

void grouped_backward(const struct problem *problem, const struct grouped *grouped, struct view out,
                      struct view dout, const struct problem_gradients *gradients)
{
    const struct problem_shape *shape = &problem->shape;
    struct memory memory = backward_memory(shape, grouped->norm, 0, problem->scratch);
    struct group_lists lists = lists_of(problem, grouped);
    if (!grouped->norm) {
        group_backward(problem, &lists, out, dout, gradients, memory.rest);
        return;
    }
    struct problem_gradients normed = *gradients;
    normed.query = view_of(memory.dquery, shape->num_queries, shape->head_dim);
    normed.key = view_of(memory.dkey, shape->num_keys, shape->head_dim);
    memset(memory.dquery, 0, shape->num_queries * shape->head_dim * sizeof(float));
    memset(memory.dkey, 0, shape->num_keys * shape->head_dim * sizeof(float));
    group_backward(problem, &lists, out, dout, &normed, memory.rest);
    struct plain_norm queries = norm_of(problem, problem->query, memory.norm),
                      keys = norm_of(problem, problem->key, memory.norm);
    plain_norm_backward(&queries, memory.dquery, gradients->query);
    plain_norm_backward(&keys, memory.dkey, gradients->key);
}
