/* Attention over a batch of packed sequences, cut into units of work (sequence, head) that a mechanism
   computes one at a time on the pool, most expensive first. The API turns padded batches and equal lengths
   into offsets. Nothing here allocates: the plan (plan.h) has the sizes, and the caller passes the blocks. A
   sequence gets the same bits on its own, packed among others, and padded with a mask.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "attention/driver/plan.h"
#include "parts/inspect/inspected.h"

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

/* All mechanisms in the order of lists, ended by NULL. */
const struct mechanism *const *attention_mechanisms(void);
const struct mechanism *attention_find(const char *name); /* NULL: unknown */
/* INVALID with the list of names; name may be NULL. */
hashattn_status attention_named(struct host *host, const char *name, const struct mechanism **mechanism);

/* The option of this mechanism called "num_buckets", or "lha.num_buckets" if this is lha; NULL if it has
   none. */
const struct option_row *attention_option(const struct mechanism *mechanism, const char *name);

/* Number of learned floats per head. */
size_t attention_param_count(const struct mechanism *mechanism, const void *options,
                             const struct parameter_sizes *sizes);

/* true: the mechanism learns how far a key is from a query (parameter_row.places). */
bool attention_places(const struct mechanism *mechanism, const void *options, size_t head_dim);

/* Writes the names of the mechanisms that ranks can share the rows of to list, as "softmax, yoso". */
void attention_shared_names(char *list, size_t size);

/* INVALID, with the numbers: rows of another width than the plan's, or no parameters. */
hashattn_status attention_check(struct host *host, const struct attention_call *call);

/* REFUSED if the mechanism has no backward pass. For callers of attention_backward, before they compute. */
hashattn_status attention_check_backward(struct host *host, const struct mechanism *mechanism);

/* Writes out (query rows, heads, value_dim). The call has been checked. */
void attention_forward(const struct attention_call *call, struct packed out);

/* The mechanism has a backward pass. Adds into dquery, dkey, dvalue and dparams (num_heads, ...; NULL: not
   wanted, or no parameters); gradients of params are summed in the order of the sequences. */
void attention_backward(const struct attention_call *call, struct packed out, struct packed dout,
                        struct packed dquery, struct packed dkey, struct packed dvalue, float *dparams);

/* After forward, if the mechanism has `inspection`. inspections: (num_sequences, num_heads), each with its
   arrays (inspection_take); all 0 for a sequence without a kept key. */
void attention_inspect(const struct attention_call *call, struct inspection *inspections);

/* The mechanism's own loss, summed over units in order; its gradient is added into dparams (NULL: value
   only). 0 if it has none. */
double attention_auxiliary(const struct attention_call *call, float *dparams);

#endif
