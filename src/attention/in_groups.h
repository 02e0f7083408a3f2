/* Builds the problem of parts/groups/grouped.h for lha, lsh and random, which differ only in their scores.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_IN_GROUPS_H
#define ATTENTION_IN_GROUPS_H

#include "attention/mechanism.h"
#include "parts/inspect/inspection.h"

/* The part that sizes depend on. */
static inline struct grouped in_groups(const struct grouping_options *options,
                                       const struct problem_shape *shape)
{
    bool released = options->mode == MODE_RELEASED;
    return (struct grouped){
        .workers = shape->workers,
        .precision = shape->precision,
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .capacity = {(size_t)options->num_groups, options->enlargement, released},
        .rounds = (size_t)options->rounds,
        .balance = (size_t)options->balance,
        .joint = options->joint || shape->causal,
        .causal = shape->causal,
        .by_token = shape->causal && options->membership == MEMBERSHIP_STRICT,
        .partition = options->partition != 0,
        .norm = released,
    };
}

static inline const char *in_groups_refuse(const struct grouping_options *options,
                                           const struct problem_shape *shape)
{
    struct grouped grouped = in_groups(options, shape);
    size_t longest = size_max(shape->num_queries, shape->num_keys);
    if (options->joint && shape->num_queries != shape->num_keys)
        return "joint needs as many queries as keys, which are the same tokens";
    if (options->partition && grouped.by_token)
        return "partition places a token among later ones: causal attention needs membership whole with it";
    if (grouped_places(&grouped, longest) > UINT32_MAX ||
        (options->partition && size_product(longest, grouped.capacity.num_groups) > UINT32_MAX))
        return "rounds is {rounds}, num_buckets is {num_buckets}; places of tokens in buckets must be below "
               "2^32";
    return NULL;
}

/* Buckets of all rounds. */
static inline size_t in_groups_count(const void *options)
{
    const struct grouping_options *grouping = options;
    return size_product((size_t)grouping->rounds, (size_t)grouping->num_groups);
}

/* With the rows of the problem; the mechanism sets score and scratch. */
static inline struct grouped in_groups_open(const struct grouping_options *options,
                                            const struct problem *problem)
{
    struct grouped grouped = in_groups(options, &problem->shape);
    grouped.kernels = problem->kernels;
    grouped.pool = problem->pool;
    grouped.query = problem->query;
    grouped.key = problem->key;
    grouped.value = problem->value;
    grouped.saved = problem->saved;
    grouped.large = problem->large;
    grouped.dropout = problem->dropout;
    return grouped;
}

/* Bytes that `inspect` of inspection_facet needs after the `scratch` bytes of its forward. */
static inline size_t in_groups_inspect_size(const struct grouped *grouped, size_t scratch)
{
    struct arena arena = arena_on(NULL);
    arena_take(&arena, scratch, 1);
    arena_take(&arena, inspection_size(grouped), 1);
    return arena.used;
}

/* With the scores and the scratch of a forward; scratch: the bytes of the latter. */
static inline void in_groups_inspect(const struct grouped *grouped, const struct problem *problem,
                                     size_t scratch, struct inspection *inspection)
{
    struct arena arena = arena_on(problem->scratch);
    arena_take(&arena, scratch, 1);
    inspection_of(grouped, problem->random_key, inspection, arena_take(&arena, inspection_size(grouped), 1));
}

static inline void in_groups_backward(const struct grouped *grouped, struct view out, struct view dout,
                                      const struct problem_gradients *gradients)
{
    const struct problem_gradients down = {
        .query = gradients->query, .key = gradients->key, .value = gradients->value};
    grouped_backward(grouped, out, dout, &down);
}

#endif
