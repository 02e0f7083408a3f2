/* A call: arrays of a batch and memory for a plan. And the rows, mask and random key of each of its units.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_CALL_H
#define ATTENTION_CALL_H

#include "attention/driver/attention_shape.h"
#include "base/random.h"
#include "parts/rows/elements.h"

/* Rows of all sequences, (total rows, heads, width): row r of head h starts at data + r * row_stride + h *
   head_stride. If `padded`, row r of sequence s, counted within the sequence, starts at data + s *
   sequence_stride + r * row_stride + h * head_stride. */
struct packed {
    void *data;
    size_t width, row_stride, head_stride, sequence_stride;
    bool padded;
};

/* One call: its plan, and what may differ between calls of the same plan. */
struct attention_call {
    const struct attention_plan *plan;
    struct packed query, key, value;
    void *saved, *scratch;   /* with the bytes that the plan says; NULL where that is 0 */
    const uint8_t *key_mask; /* (key rows) 1 = takes part; or NULL. With a plan of masked calls only */
    /* In a head of one sequence, the sum of squares of query, key or value in forward, or of dout in
       backward, may reach DOUBLE_SQUARES (parts/tiles/double_attention.h). If false, the caller guarantees
       that it does not, or forward with out_of_range finds out; softmax may otherwise overflow. */
    bool large;
    /* Rate of the dropout of attention weights, in 65536ths, and the factor of the others, 1 / (1 - rate). 0:
       none. Mechanisms with drops_weights; not with large. */
    unsigned drop_threshold;
    float drop_scale;
    uint64_t call_key;          /* (seed, step, layer): determines the planes */
    const uint64_t *sample_ids; /* (num_sequences) global indices, part of each head's key; NULL: every
                                   sequence hashes alike */
    const float *params;        /* (num_heads, parameters of a head); or NULL */
    /* NULL, or set by forward if a number is out of range; the output is then invalid, and row_range_fail
       (row_range.h) tells why. */
    atomic_bool *out_of_range;
};

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

#endif
