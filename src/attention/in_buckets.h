/* A problem as the mechanisms with buckets of tokens hand it down to parts/groups/bucketed.h: lha, lsh and
   random differ in their scores alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_IN_BUCKETS_H
#define ATTENTION_IN_BUCKETS_H

#include "attention/mechanism.h"
#include "parts/inspect/inspection.h"

static inline const char *in_buckets_refuse(const struct bucketing_options *options,
                                            const struct problem_shape *shape)
{
    if (options->joint && shape->num_queries != shape->num_keys)
        return "joint needs as many queries as keys, which are the same tokens";
    return NULL;
}

/* All that sizes depend on. */
static inline struct bucketed in_buckets(const struct bucketing_options *options,
                                         const struct problem_shape *shape)
{
    bool released = options->mode == MODE_RELEASED;
    return (struct bucketed){
        .workers = shape->workers,
        .precision = shape->precision,
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .capacity = {(size_t)options->num_buckets, options->enlargement, released},
        .balance = (size_t)options->balance,
        .joint = options->joint || shape->causal,
        .causal = shape->causal,
        .by_token = shape->causal && options->membership == MEMBERSHIP_STRICT,
        .norm = released,
    };
}

static inline size_t in_buckets_count(const void *options)
{
    return (size_t)((const struct bucketing_options *)options)->num_buckets;
}

/* With the rows of the problem; score and scratch are the mechanism's affair. */
static inline struct bucketed in_buckets_open(const struct bucketing_options *options,
                                              const struct problem *problem)
{
    struct bucketed bucketed = in_buckets(options, &problem->shape);
    bucketed.kernels = problem->kernels;
    bucketed.pool = problem->pool;
    bucketed.query = problem->query;
    bucketed.key = problem->key;
    bucketed.value = problem->value;
    bucketed.saved = problem->saved;
    bucketed.large = problem->large;
    return bucketed;
}

/* What `inspect` of inspection_facet needs behind the `scratch` of its forward. */
static inline size_t in_buckets_inspect_size(const struct bucketed *bucketed, size_t scratch)
{
    struct arena arena = arena_on(NULL);
    arena_take(&arena, scratch, 1);
    arena_take(&arena, inspection_size(bucketed), 1);
    return arena.used;
}

/* With the scores and the scratch of a forward, which is so large. */
static inline void in_buckets_inspect(const struct bucketed *bucketed, const struct problem *problem,
                                      size_t scratch, struct inspection *inspection)
{
    struct arena arena = arena_on(problem->scratch);
    arena_take(&arena, scratch, 1);
    inspection_of(bucketed, problem->random_key, inspection,
                  arena_take(&arena, inspection_size(bucketed), 1));
}

static inline void in_buckets_backward(const struct bucketed *bucketed, struct view out, struct view dout,
                                       const struct problem_gradients *gradients)
{
    const struct attention_gradients down = {
        .query = gradients->query, .key = gradients->key, .value = gradients->value};
    bucketed_backward(bucketed, out, dout, &down);
}

#endif
