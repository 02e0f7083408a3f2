/* Builds the problem of parts/features/feature_attention.h for the mechanisms that differ only in their map,
   and the functions of a mechanism that follow from it. SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_IN_FEATURES_H
#define ATTENTION_IN_FEATURES_H

#include "attention/mechanism.h"
#include "parts/features/feature_attention.h"

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

#endif
