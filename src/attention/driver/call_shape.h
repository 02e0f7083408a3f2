/* What follows from the shapes of a call: the shape and mask of a sequence, the rows of a head, and the
   number of parameters.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_CALL_SHAPE_H
#define ATTENTION_CALL_SHAPE_H

#include "attention/driver/attention.h"
#include "base/random.h"
#include "parts/rows/elements.h"

static inline const uint8_t *call_mask(const struct attention_call *call, size_t sequence)
{
    return call->key_mask == NULL ? NULL : call->key_mask + call->plan->shape.key_offsets[sequence];
}

/* The random key of a unit. A sequence with a global index has it in its key. Without (in evaluation), all
   sequences use the same key. */
static inline uint64_t call_unit_key(const struct attention_call *call, size_t sequence, size_t head)
{
    uint64_t key = call->call_key;
    if (call->sample_ids != NULL)
        key = random_key(key, RANDOM_SAMPLE, call->sample_ids[sequence]);
    return random_key(key, RANDOM_HEAD, call->plan->shape.first_head + head);
}

/* The rows of one head of one sequence, in the caller's memory. offsets: of queries or of keys. */
static inline struct view call_head(const struct attention_shape *shape, const struct packed *rows,
                                    const size_t *offsets, size_t sequence, size_t head)
{
    size_t count = offsets[sequence + 1] - offsets[sequence];
    size_t first = rows->padded ? sequence * rows->sequence_stride : offsets[sequence] * rows->row_stride;
    size_t at = (first + head * rows->head_stride) * element_bytes(shape->dtype);
    return (struct view){
        .data = count == 0 ? NULL : (unsigned char *)rows->data + at,
        .dtype = shape->dtype,
        .rows = count,
        .cols = rows->width,
        .stride = rows->row_stride,
    };
}

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
