/* What follows from the fields of a call: the shape and mask of a sequence, the rows of a head, and the
   number of parameters.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_CALL_SHAPE_H
#define ATTENTION_CALL_SHAPE_H

#include "attention/driver/attention.h"
#include "parts/rows/elements.h"

static inline const uint8_t *call_mask(const struct attention_call *call, size_t sequence)
{
    return call->key_mask == NULL ? NULL : call->key_mask + call->key_offsets[sequence];
}

/* The rows of one head of one sequence, in the caller's memory. offsets: of queries or of keys. */
static inline struct view call_head(const struct attention_call *call, const struct packed *rows,
                                    const size_t *offsets, size_t sequence, size_t head)
{
    size_t count = offsets[sequence + 1] - offsets[sequence];
    size_t first = rows->padded ? sequence * rows->sequence_stride : offsets[sequence] * rows->row_stride;
    size_t at = (first + head * rows->head_stride) * element_bytes(call->dtype);
    return (struct view){
        .data = count == 0 ? NULL : (unsigned char *)rows->data + at,
        .dtype = call->dtype,
        .rows = count,
        .cols = rows->width,
        .stride = rows->row_stride,
    };
}

/* One sequence with all its keys, on one thread: its memory is sized for this. */
static inline struct problem_shape call_shape(const struct attention_call *call, size_t sequence)
{
    const size_t *query = call->query_offsets + sequence, *key = call->key_offsets + sequence;
    return (struct problem_shape){
        .num_queries = query[1] - query[0],
        .num_keys = key[1] - key[0],
        .head_dim = call->head_dim,
        .value_dim = call->value_dim,
        .max_len = call->max_len,
        .causal = call->causal,
        .precision = call->precision,
        .workers = 1,
        .ranks = row_ranks_count(call->ranks),
        .total_rows = call->ranks == NULL ? 0 : call->totals[sequence],
    };
}

/* The functions that compute a sequence whose rows ranks share; NULL: every rank computes its rows by
   itself. */
static inline const struct sequence_parallel_facet *call_across(const struct attention_call *call)
{
    return call->ranks == NULL ? NULL : call->mechanism->sequence_parallel;
}

static inline size_t call_saved_size(const struct attention_call *call, const struct problem_shape *shape)
{
    const struct sequence_parallel_facet *across = call_across(call);
    return (across != NULL ? across->saved_size : call->mechanism->saved_size)(call->options, shape);
}

static inline size_t call_scratch_size(const struct attention_call *call, const struct problem_shape *shape)
{
    const struct sequence_parallel_facet *across = call_across(call);
    if (call->inspects)
        return call->mechanism->inspection->scratch_size(call->options, shape);
    return (across != NULL ? across->scratch_size : call->mechanism->scratch_size)(call->options, shape);
}

/* Without rows nothing is done and no memory is needed, for any number of heads and columns: an array
   without elements can have any. */
static inline bool call_has_rows(const struct attention_call *call)
{
    return call->query_offsets[call->num_sequences] > 0 || call->key_offsets[call->num_sequences] > 0;
}

static inline size_t call_param_count(const struct attention_call *call)
{
    const struct parameter_sizes sizes = {call->head_dim, call->value_dim, call->max_len};
    return attention_param_count(call->mechanism, call->options, &sizes);
}

/* true if a masked token is absent as a query too (`competes`). */
static inline bool call_masks_queries(const struct attention_call *call, const struct problem_shape *shape)
{
    return call->mechanism->competes && call->key_mask != NULL && shape->num_queries == shape->num_keys;
}

#endif
