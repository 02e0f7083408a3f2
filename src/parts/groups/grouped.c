/* Step 3, on the lists of grouped_members.c, and the memory of all steps.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouped.h"

#include <string.h>

#include "parts/rows/plain_norm.h"

/* ---- memory -------------------------------------------------------------------------------------------- */

size_t grouped_places(const struct grouped *b, size_t n)
{
    return b->by_token || b->partition ? size_product(n, b->rounds)
                                       : size_product(grouped_lists(b), capacity_of(&b->capacity, n));
}

static size_t longest_of(const struct grouped *b, size_t n)
{
    size_t groups = b->capacity.num_groups;
    return b->by_token ? n : b->partition ? (n + groups - 1) / groups : capacity_of(&b->capacity, n);
}

static struct group_sizes sizes_of(const struct grouped *b)
{
    return (struct group_sizes){
        .num_queries = b->num_queries,
        .num_keys = b->num_keys,
        .dim = b->dim,
        .value_dim = b->value_dim,
        .query_places = grouped_places(b, b->num_queries),
        .key_places = grouped_places(b, b->num_keys),
        .longest_query = longest_of(b, b->num_queries),
        .longest_key = longest_of(b, b->num_keys),
        .precision = b->precision,
        .norm = b->norm,
        .workers = b->workers,
    };
}

struct grouped_saved grouped_saved(const struct grouped *b)
{
    struct grouped_saved saved;
    struct arena arena = arena_on(b->saved);
    saved.queries = members_take(&arena, grouped_lists(b), grouped_places(b, b->num_queries));
    saved.keys = saved.queries;
    if (!b->joint)
        saved.keys = members_take(&arena, grouped_lists(b), grouped_places(b, b->num_keys));
    saved.rows = softmax_rows_take(&arena, b->num_queries);
    saved.bytes = arena.used;
    return saved;
}

size_t grouped_saved_size(const struct grouped *grouped)
{
    struct grouped measured = *grouped;
    measured.saved = NULL;
    return grouped_saved(&measured).bytes;
}

/* Memory of backward, if rows are normed. */
struct memory {
    float *dquery, *dkey; /* (n, d): gradients of normed rows */
    void *norm;           /* (workers, plain_norm_size) */
    void *rest;           /* memory of group_attention */
    size_t bytes;
};

static struct memory backward_memory(const struct grouped *b, size_t rest)
{
    struct memory memory = {0};
    struct arena arena = arena_on(b->scratch);
    if (b->norm) {
        memory.dquery = arena_take(&arena, size_product(b->num_queries, b->dim), sizeof(float));
        memory.dkey = arena_take(&arena, size_product(b->num_keys, b->dim), sizeof(float));
        memory.norm = arena_take(&arena, b->workers, plain_norm_size(b->dim));
    }
    memory.rest = arena_take(&arena, rest, 1);
    memory.bytes = arena.used;
    return memory;
}

/* Scores and products share memory: scores are not needed once products start. */
size_t grouped_scratch_size(const struct grouped *grouped)
{
    struct grouped b = *grouped;
    b.scratch = NULL;
    struct group_sizes sizes = sizes_of(&b);
    size_t forward = size_max(grouped_members_size(&b), group_forward_size(&sizes));
    return size_max(forward, backward_memory(&b, group_backward_size(&sizes)).bytes);
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

static struct plain_norm norm_of(const struct grouped *b, enum grouped_side side, void *scratch)
{
    return (struct plain_norm){.kernels = b->kernels,
                               .pool = b->pool,
                               .x = side == SIDE_QUERIES ? b->query : b->key,
                               .scratch = scratch};
}

enum group_sight grouped_sight(const struct grouped *b)
{
    return !b->causal ? SIGHT_ALL : b->by_token ? SIGHT_WINDOW : SIGHT_PAST;
}

struct attending {
    float *query, *key; /* (n, d): normed */
    void *norm;         /* (workers, plain_norm_size) */
    size_t bytes;
};

static struct attending attending_on(const struct grouped *b, void *block)
{
    struct attending attending = {0};
    struct arena arena = arena_on(block);
    if (b->norm) {
        attending.query = arena_take(&arena, size_product(b->num_queries, b->dim), sizeof(float));
        attending.key = arena_take(&arena, size_product(b->num_keys, b->dim), sizeof(float));
        attending.norm = arena_take(&arena, b->workers, plain_norm_size(b->dim));
    }
    attending.bytes = arena.used;
    return attending;
}

size_t grouped_attending_size(const struct grouped *b)
{
    return attending_on(b, NULL).bytes;
}

void grouped_attending(const struct grouped *b, struct view *query, struct view *key, void *scratch)
{
    *query = b->query;
    *key = b->key;
    if (!b->norm)
        return;
    struct attending attending = attending_on(b, scratch);
    struct plain_norm queries = norm_of(b, SIDE_QUERIES, attending.norm),
                      keys = norm_of(b, SIDE_KEYS, attending.norm);
    plain_norm_forward(&queries, attending.query);
    plain_norm_forward(&keys, attending.key);
    *query = view_of(attending.query, b->num_queries, b->dim);
    *key = view_of(attending.key, b->num_keys, b->dim);
}

static struct group_attention attention_of(const struct grouped *b)
{
    struct grouped_saved saved = grouped_saved(b);
    return (struct group_attention){
        .kernels = b->kernels,
        .pool = b->pool,
        .sizes = sizes_of(b),
        .sight = grouped_sight(b),
        .window = b->capacity,
        .large = b->large,
        .dropout = b->dropout,
        .query = b->query,
        .key = b->key,
        .value = b->value,
        .queries = saved.queries,
        .keys = saved.keys,
        .rows = saved.rows,
    };
}

void grouped_forward(const struct grouped *b, struct view out)
{
    grouped_members(b);
    struct group_attention attention = attention_of(b);
    group_forward(&attention, out, b->scratch);
}

void grouped_backward(const struct grouped *b, struct view out, struct view dout,
                      const struct problem_gradients *gradients)
{
    struct memory memory = backward_memory(b, 0);
    struct group_attention attention = attention_of(b);
    if (!b->norm) {
        group_backward(&attention, out, dout, gradients, memory.rest);
        return;
    }
    struct problem_gradients normed = *gradients;
    normed.query = view_of(memory.dquery, b->num_queries, b->dim);
    normed.key = view_of(memory.dkey, b->num_keys, b->dim);
    memset(memory.dquery, 0, b->num_queries * b->dim * sizeof(float));
    memset(memory.dkey, 0, b->num_keys * b->dim * sizeof(float));
    group_backward(&attention, out, dout, &normed, memory.rest);
    struct plain_norm queries = norm_of(b, SIDE_QUERIES, memory.norm),
                      keys = norm_of(b, SIDE_KEYS, memory.norm);
    plain_norm_backward(&queries, memory.dquery, gradients->query);
    plain_norm_backward(&keys, memory.dkey, gradients->key);
}
