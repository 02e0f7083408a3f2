/* Attention over a batch of packed sequences, cut into units of work (sequence, head) that a mechanism
   computes one at a time on the pool, most expensive first. The API turns padded batches and equal lengths
   into offsets. Nothing here allocates: the caller asks for the sizes and passes the blocks. A sequence gets
   the same bits on its own, packed among others, and padded with a mask.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "attention/mechanism.h"
#include "base/pool.h"
#include "parts/inspect/inspected.h"

/* Rows of all sequences, (total rows, heads, width): row r of head h starts at data + r * row_stride + h *
   head_stride. If `padded`, row r of sequence s, counted within the sequence, starts at data + s *
   sequence_stride + r * row_stride + h * head_stride. */
struct packed {
    void *data;
    size_t width, row_stride, head_stride, sequence_stride;
    bool padded;
};

struct attention_call {
    const struct kernels *kernels;
    struct pool *pool;
    const struct mechanism *mechanism;
    const void *options;
    size_t num_sequences, num_heads, head_dim, value_dim;
    size_t max_len;    /* longest sequence that learned tensors are sized for; 0: unknown */
    size_t first_head; /* number of the first head, part of the heads' keys; 0 unless mechanisms are mixed */
    const size_t *query_offsets,
        *key_offsets; /* (num_sequences + 1) rising, first 0; the same array for self-attention */
    /* Element type of every array of the call, here and below. Most mechanisms take only floats: bfloat16
       rows are widened into a worker's memory, and results are rounded to nearest (gradients once, after all
       were added). See reads_bf16 of struct mechanism. */
    enum dtype dtype;
    enum precision precision; /* see struct problem_shape */
    struct packed query, key, value;
    const uint8_t *key_mask; /* (key rows) 1 = takes part; or NULL */
    bool causal;
    bool inspects; /* attention_inspect will be called: scratch includes it */
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
    /* NULL, or the ranks that share every sequence (comm/row_ranks.h). The rows of the call are then this
       rank's spans, totals (num_sequences) the rows of the whole sequences. Self-attention of floats, without
       mask, out_of_range, inspects and large. A call is collective. */
    struct row_ranks *ranks;
    const size_t *totals;
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

/* Writes the names of the mechanisms that ranks can share the rows of to list, as "softmax, yoso". */
void attention_shared_names(char *list, size_t size);

/* Checks widths, causal and the mechanism's refusal; the message has the numbers. Offsets must start at 0
   and never fall: the API checks that. */
hashattn_status attention_check(struct host *host, const struct attention_call *call);
/* The part of attention_check that reads no array: causal and the mechanism's refusal, for every sequence.
   For callers that own their arrays, before each batch. Cost: at most 2 us per sequence whose length differs
   from the previous one's. */
hashattn_status attention_check_shapes(struct host *host, const struct attention_call *call);

/* REFUSED if the mechanism has no backward pass. For callers of attention_backward, before they compute. */
hashattn_status attention_check_backward(struct host *host, const struct mechanism *mechanism);

/* Bytes of the two blocks. saved lives from forward to backward and begins with the memory that all units
   share; scratch is free in between. Both depend on the offsets, the widths, whether there is a mask and the
   number of threads. SIZE_MAX if they overflow; 0 if no sequence has a row. */
size_t attention_saved_size(const struct attention_call *call);
size_t attention_scratch_size(const struct attention_call *call);

/* Writes out (query rows, heads, value_dim). The call has been checked. */
void attention_forward(const struct attention_call *call, struct packed out, void *saved, void *scratch);

/* The mechanism has a backward pass. Adds into dquery, dkey, dvalue and dparams (num_heads, ...; NULL: not
   wanted, or no parameters); gradients of params are summed in the order of the sequences. */
void attention_backward(const struct attention_call *call, struct packed out, struct packed dout,
                        struct packed dquery, struct packed dkey, struct packed dvalue, float *dparams,
                        void *saved, void *scratch);

/* After forward, if the mechanism has `inspection`. inspections: (num_sequences, num_heads), each with its
   arrays (inspection_take); all 0 for a sequence without a kept key. */
void attention_inspect(const struct attention_call *call, struct inspection *inspections, void *saved,
                       void *scratch);

/* The mechanism's own loss, summed over units in order; its gradient is added into dparams (NULL: value
   only). 0 if it has none. */
double attention_auxiliary(const struct attention_call *call, float *dparams, void *saved, void *scratch);

#endif
