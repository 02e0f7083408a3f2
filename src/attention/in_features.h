/* Builds the problem of parts/features/feature_attention.h for the mechanisms that differ only in their map,
   and the functions of a mechanism that follow from it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_IN_FEATURES_H
#define ATTENTION_IN_FEATURES_H

#include "attention/mechanism.h"
#include "parts/features/feature_state.h"

/* The part that sizes depend on. */
static inline struct feature_attention in_features(const struct problem_shape *shape, struct feature_map map,
                                                   float epsilon)
{
    return (struct feature_attention){
        .map = map,
        .workers = shape->workers,
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .value_dim = shape->value_dim,
        .epsilon = epsilon,
        .causal = shape->causal,
    };
}

/* With the rows of the problem. */
static inline struct feature_attention in_features_open(const struct problem *problem, struct feature_map map,
                                                        float epsilon)
{
    struct feature_attention a = in_features(&problem->shape, map, epsilon);
    a.map.kernels = problem->kernels;
    a.pool = problem->pool;
    a.visible = problem->visible;
    a.query = problem->query;
    a.key = problem->key;
    a.value = problem->value;
    a.saved = problem->saved;
    return a;
}

/* The state of a stream. kernels: NULL for sizes and merge. */
static inline struct feature_state in_features_state(const struct kernels *kernels,
                                                     const struct problem_shape *shape,
                                                     struct feature_map map, float epsilon, const void *block)
{
    map.kernels = kernels;
    return (struct feature_state){
        .map = map, .value_dim = shape->value_dim, .epsilon = epsilon, .block = (void *)block};
}

/* `read` of stream_facet. */
static inline void in_features_read(const struct problem *problem, const struct feature_state *state,
                                    const struct feature_keys *keys, struct view out, void *scratch)
{
    if (problem->shape.causal)
        feature_state_scan(state, keys, problem->query, problem->visible, out, scratch);
    else
        feature_state_read(state, problem->query, out, scratch);
}

#endif
