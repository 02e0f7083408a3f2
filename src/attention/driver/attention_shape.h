/* The shape of a call, what follows from its fields, and the plan that is made of it (plan.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_SHAPE_H
#define ATTENTION_SHAPE_H

#include "attention/driver/mechanisms.h"
#include "base/pool.h"

/* What a plan is made from. */
struct attention_shape {
    const struct kernels *kernels;
    struct pool *pool;
    const struct mechanism *mechanism;
    const void *options;
    size_t num_sequences, num_heads, head_dim, value_dim;
    size_t max_len;    /* longest sequence that learned tensors are sized for; 0: unknown */
    size_t first_head; /* number of the first head, part of the heads' keys; 0 unless mechanisms are mixed */
    const size_t *query_offsets,
        *key_offsets; /* (num_sequences + 1) rising, first 0; the same array for self-attention */
    /* Element type of every array of a call. Most mechanisms take only floats: bfloat16 rows are widened into
       a worker's memory, and results are rounded to nearest (gradients once, after all were added). See
       struct hashing_facet. */
    enum dtype dtype;
    enum precision precision; /* see struct problem_shape */
    bool masked;              /* a call has a key_mask */
    bool causal;
    bool inspects; /* attention_inspect will be called: scratch includes it */
    /* NULL, or the ranks that share every sequence (comm/row_ranks.h). The rows of a call are then this
       rank's spans, totals (num_sequences) the rows of the whole sequences. Self-attention of floats, without
       mask, out_of_range, inspects and large. A call is collective. */
    struct row_ranks *ranks;
    const size_t *totals;
    /* NULL, or the device that computes the call, through the mechanism's device implementation
       (driver/device_batch.h). Then neither ranks nor inspects, and the pool is not used. */
    struct device *device;
    bool alike; /* with a device: calls have no sample_ids */
};

struct attention_plan {
    struct attention_shape shape;
    size_t param_count;  /* learned floats of a head */
    size_t shared_bytes; /* of what all units share, at the start of `saved` */
    size_t *order;       /* (num_sequences) most expensive first */
    size_t *start;       /* (num_sequences + 1) where the heads of a sequence begin in `saved` */
    size_t num_spread;   /* the first units of the order, each on all threads */
    size_t worker_bytes; /* scratch of a unit on one thread */
    size_t worker_area;  /* of all workers, or of one spread unit */
    /* Bytes of the two blocks. saved lives from forward to backward; scratch is free in between. */
    size_t saved_bytes, scratch_bytes;
    size_t staging_bytes; /* with a device: host memory, see struct device_blocks */
};

/* One sequence with all its keys, on one thread: its memory is sized for this. */
static inline struct problem_shape shape_of_sequence(const struct attention_shape *shape, size_t sequence)
{
    const size_t *query = shape->query_offsets + sequence, *key = shape->key_offsets + sequence;
    return (struct problem_shape){
        .num_queries = query[1] - query[0],
        .num_keys = key[1] - key[0],
        .head_dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .max_len = shape->max_len,
        .causal = shape->causal,
        .precision = shape->precision,
        .workers = 1,
        .ranks = row_ranks_count(shape->ranks),
        .total_rows = shape->ranks == NULL ? 0 : shape->totals[sequence],
    };
}

/* true: ranks compute each sequence together. false: every rank computes its own rows. */
static inline bool shape_spans_ranks(const struct attention_shape *shape)
{
    return shape->ranks != NULL && shape->mechanism->ranks != NULL;
}

/* The one that computes the call. */
static inline const struct implementation *shape_implementation(const struct attention_shape *shape)
{
    return shape_spans_ranks(shape) ? shape->mechanism->ranks : &shape->mechanism->host;
}

/* Without rows a call does nothing and needs no memory. An array without elements may have any number of
   heads and columns. */
static inline bool shape_has_rows(const struct attention_shape *shape)
{
    return shape->query_offsets[shape->num_sequences] > 0 || shape->key_offsets[shape->num_sequences] > 0;
}

static inline size_t shape_param_count(const struct attention_shape *shape)
{
    const struct parameter_sizes sizes = {shape->head_dim, shape->value_dim, shape->max_len};
    return attention_param_count(shape->mechanism, shape->options, &sizes);
}

/* true if a masked token is absent as a query too (`competes`). */
static inline bool shape_masks_queries(const struct attention_shape *shape, const struct problem_shape *of)
{
    return shape->mechanism->competes && shape->masked && of->num_queries == of->num_keys;
}

#endif
