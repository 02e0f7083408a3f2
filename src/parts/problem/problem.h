/* The problem: one head of one sequence, as strided views. A mechanism and every part receive it whole, so
   no floor repeats its fields: what a part needs beyond it is a struct of its own. A part that attends over
   other rows makes a problem of them (problem_of_rows).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PROBLEM_H
#define PARTS_PROBLEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "kernels/kernels.h"
#include "kernels/product_weights.h"
#include "parts/problem/weight_dropout.h"
#include "parts/rows/view.h"

struct row_ranks; /* comm/row_ranks.h */

/* The shape of one problem. refuse and the size functions may depend on this and the options only. */
struct problem_shape {
    size_t num_queries, num_keys; /* n_q, n_k; 0 in refuse and in the sizes only */
    size_t head_dim, value_dim;   /* d of queries and keys, d_v of values and output; >= 1 */
    size_t max_len;               /* longest sequence that the learned tensors are sized for; 0: unknown */
    bool causal;                  /* query i sees only the first problem.visible[i] keys */
    bool streamed;                /* rows come in chunks: later rows are unknown */
    enum precision precision;     /* operands of products may be rounded to this; sums stay float32 */
    size_t workers;               /* threads of problem.pool: scratch_size includes memory for each; >= 1 */
    size_t ranks;                 /* that share the rows of the sequence; 0 and 1: none */
    size_t total_rows;            /* with ranks: rows of the sequence on all of them */
};

/* One head of one sequence, with at least one query and one key. All pointers are the caller's. */
struct problem {
    const struct kernels *kernels;
    struct problem_shape shape;
    const void *options;     /* the mechanism's own option struct, filled */
    struct view query;       /* (n_q, d) */
    struct view key;         /* (n_k, d) */
    struct view value;       /* (n_k, d_v) */
    const uint8_t *key_mask; /* (n_k), 1 = the key takes part; or NULL = all. See `sees_mask`. */
    /* (n_q) causal: query i sees the first visible[i] of the keys given. Never falls with i; may be 0, and
       then the output is 0 without gradient. Without masked keys visible[i] = i + 1. NULL unless causal. */
    const size_t *visible;
    uint64_t random_key; /* the only source of randomness of this head: hash of (seed, step, layer, sample,
                            head) */
    const void *shared;  /* made by `prepare` for this call, the same for all heads and sequences */
    const float *params; /* this head's learned parameters, in the order of the rows; or NULL */
    void *saved;         /* saved_size bytes: forward writes, backward reads */
    void *scratch;       /* scratch_size bytes, uninitialised, not kept between calls */
    /* All threads, if the problem has them to itself (see work_order.h); else NULL. No bit of the result may
       depend on it: cut work by shape, and keep the order of sums. */
    struct pool *pool;
    atomic_bool *out_of_range; /* see struct hashing_facet; NULL: no check wanted */
    /* Numbers may be large enough for float32 sums to overflow. A softmax mechanism then checks, and
       computes in double where they could (parts/tiles/double_attention.h). */
    bool large;
    struct weight_dropout dropout; /* of attention weights, with drops_weights; not with large */
    struct row_ranks *ranks;       /* that share the rows; NULL: none */
};

/* Query i sees keys 0 .. problem_seen(problem, i) - 1. */
static inline size_t problem_seen(const struct problem *problem, size_t i)
{
    return problem->shape.causal ? problem->visible[i] : problem->shape.num_keys;
}

/* Backward adds its gradients here. Views as in the problem. */
struct problem_gradients {
    struct view query, key, value; /* += */
    float *params;                 /* +=, laid out as problem.params; NULL: not wanted */
};

/* The shape of attention from some rows to others. */
static inline struct problem_shape shape_of_rows(const struct problem_shape *shape, size_t num_queries,
                                                 size_t num_keys)
{
    struct problem_shape of = *shape;
    of.num_queries = num_queries;
    of.num_keys = num_keys;
    return of;
}

/* The same head, with these rows in place of its own. */
static inline struct problem problem_of_rows(const struct problem *problem, struct view query,
                                             struct view key, struct view value)
{
    struct problem of = *problem;
    of.shape.num_queries = query.rows;
    of.shape.num_keys = key.rows;
    of.shape.head_dim = query.cols;
    of.shape.value_dim = value.cols;
    of.query = query;
    of.key = key;
    of.value = value;
    return of;
}

#endif
