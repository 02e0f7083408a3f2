/* Builds the problem of parts/patterns/pattern_attention.h for the mechanisms that differ only in their
   pattern: longformer, bigbird and sparse.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_IN_PATTERNS_H
#define ATTENTION_IN_PATTERNS_H

#include "attention/mechanism.h"
#include "parts/patterns/pattern_attention.h"

/* The mechanism sets block, most_span and most_listed. */
static inline struct pattern_sizes in_patterns_sizes(const struct problem_shape *shape)
{
    return (struct pattern_sizes){
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .precision = shape->precision,
        .workers = shape->workers,
    };
}

static inline struct pattern_attention in_patterns_open(const struct problem *problem,
                                                        const struct pattern_sizes *sizes,
                                                        const struct pattern_part *parts, size_t num_parts,
                                                        struct softmax_rows rows)
{
    return (struct pattern_attention){
        .kernels = problem->kernels,
        .pool = problem->pool,
        .sizes = *sizes,
        .parts = parts,
        .num_parts = num_parts,
        .large = problem->large,
        .dropout = problem->dropout,
        .query = problem->query,
        .key = problem->key,
        .value = problem->value,
        .rows = rows,
    };
}

static inline void in_patterns_backward(const struct pattern_attention *attention, struct view out,
                                        struct view dout, const struct problem_gradients *gradients,
                                        void *scratch)
{
    const struct attention_gradients down = {
        .query = gradients->query, .key = gradients->key, .value = gradients->value};
    pattern_attention_backward(attention, out, dout, &down, scratch);
}

#endif
