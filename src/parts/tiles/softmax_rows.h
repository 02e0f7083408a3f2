/* Kept of each query from forward to backward by softmax attention: the largest product q k, unscaled, and
   the logarithm of the sum of exp((q k - largest) / sqrt(d)). Their sum, the usual log-sum-exp, would be one
   number, but in float32 it loses the logarithm if the products are large, and the weights of backward then
   no longer sum to 1.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_SOFTMAX_ROWS_H
#define PARTS_SOFTMAX_ROWS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/memory.h"
#include "parts/problem/problem.h"

/* The maximum of no products: finite, so that a tile of unseen keys leaves a query unchanged. */
#define SOFTMAX_ROWS_LEAST (-FLT_MAX)

struct softmax_rows {
    float *max, *log_sum; /* (queries) each; queries >= 1 */
};

/* Marks that forward ran in double (double_attention.h), which keeps nothing else: no maximum is -inf. Call
   it before anything else is kept. */
static inline void softmax_rows_mark(const struct softmax_rows *rows, bool in_double)
{
    rows->max[0] = in_double ? -INFINITY : 0;
}

static inline bool softmax_rows_in_double(const struct softmax_rows *rows)
{
    return rows->max[0] == -INFINITY;
}

static inline struct softmax_rows softmax_rows_take(struct arena *arena, size_t queries)
{
    struct softmax_rows rows;
    rows.max = arena_take(arena, queries, sizeof *rows.max);
    rows.log_sum = arena_take(arena, queries, sizeof *rows.log_sum);
    return rows;
}

/* Bytes of the two arrays: saved_size of a mechanism that keeps nothing else. */
static inline size_t softmax_rows_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct arena arena = arena_on(NULL);
    softmax_rows_take(&arena, shape->num_queries);
    return arena.used;
}

#endif
