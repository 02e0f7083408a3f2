/* Attention over a batch: packed sequences x heads, cut into units of work (sequence, head) that a mechanism
   computes one at a time, dearest first, on the pool. Padded batches and equal lengths are special cases that
   the API turns into offsets. Nothing here allocates: ask for the sizes, give the blocks. Each sequence gets
   the same bits alone, packed among others, and padded with a mask. SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "attention/mechanism.h"
#include "base/pool.h"
#include "parts/inspect/inspected.h"

/* Rows of all sequences, (total rows, heads, width): row r of head h starts at data + r * row_stride + h *
   head_stride. Where sequence_stride is not 0 the sequences do not follow one another: row r of sequence s,
   counted in the sequence, starts at data + s * sequence_stride + r * row_stride + h * head_stride. */
struct packed {
    void *data;
    size_t width, row_stride, head_stride, sequence_stride;
};

struct attention_call {
    const struct kernels *kernels;
    struct pool *pool;
    const struct mechanism *mechanism;
    const void *options;
    size_t num_sequences, num_heads, head_dim, value_dim;
    size_t max_len;    /* that learned tensors are made for; 0: unknown */
    size_t first_head; /* number of the first of the heads, part of their keys; 0 but where heads are mixed */
    const size_t *query_offsets,
        *key_offsets; /* (num_sequences + 1) rising, first 0; the same array for self-attention */
    /* Of every array of the call, here and below. Most mechanisms see floats alone: rows of bfloat16 are
       widened into a worker's memory, and what is written is rounded to nearest on its way back (gradients:
       once, after all was added). See reads_bf16 of struct mechanism. */
    enum dtype dtype;
    enum precision precision; /* see struct problem_shape */
    struct packed query, key, value;
    const uint8_t *key_mask; /* (key rows) 1 = takes part; or NULL */
    bool causal;
    bool inspects; /* attention_inspect will be called: the scratch has room for it */
    /* The squares of a head of one sequence, of query, key or value in forward, of dout in backward, may sum
       up to DOUBLE_SQUARES or more (parts/tiles/double_attention.h). false is a promise: softmax then may
       overflow.
     */
    bool large;
    uint64_t call_key;          /* (seed, step, layer): planes come from it */
    const uint64_t *sample_ids; /* (num_sequences) global indices, part of each head's key; NULL: every
                                   sequence hashes alike */
    const float *params;        /* (num_heads, parameters of a head); or NULL */
    /* NULL, or set by forward where a mechanism that checks_rows meets NaN or infinity in a unit that has
       queries and kept keys. Then what was written is no result. */
    atomic_bool *not_finite;
};

/* All mechanisms, in the order in which lists show them, ended by NULL. */
const struct mechanism *const *attention_mechanisms(void);
const struct mechanism *attention_find(const char *name); /* NULL: unknown */
/* INVALID with the list of names; name may be NULL. */
hashattn_status attention_named(struct host *host, const char *name, const struct mechanism **mechanism);

/* The option of this mechanism that is meant by "num_buckets", or by "lha.num_buckets" if this is lha; NULL:
   it has none. */
const struct option_row *attention_option(const struct mechanism *mechanism, const char *name);

/* Number of learned floats per head. */
size_t attention_param_count(const struct mechanism *mechanism, const void *options,
                             const struct parameter_sizes *sizes);

/* Checks widths, causal and what the mechanism refuses; the message has the numbers. Offsets begin with 0 and
   never fall: whoever takes them from outside checks that. */
hashattn_status attention_check(struct host *host, const struct attention_call *call);
/* The part of it that looks at no array: causal, and what the mechanism refuses, for every sequence. For
   callers whose arrays are their own, before each batch. Cost: at most 2 us for a sequence of another length
   than the one before it. */
hashattn_status attention_check_shapes(struct host *host, const struct attention_call *call);

/* Bytes of the two blocks. saved lives from forward to backward and begins with what all
   units share; scratch is dead in between. They depend on
   the offsets, the widths, whether a mask is given and the number of threads. SIZE_MAX when they overflow; 0
   where no sequence has a row. */
size_t attention_saved_size(const struct attention_call *call);
size_t attention_scratch_size(const struct attention_call *call);

/* out (query rows, heads, value_dim) is written. The call has been checked. */
void attention_forward(const struct attention_call *call, struct packed out, void *saved, void *scratch);

/* Adds into dquery, dkey, dvalue and dparams (num_heads, ...; NULL: there are none, or none wanted), partial
   sums of params in the order of the sequences. */
void attention_backward(const struct attention_call *call, struct packed out, struct packed dout,
                        struct packed dquery, struct packed dkey, struct packed dvalue, float *dparams,
                        void *saved, void *scratch);

/* After forward, with the mechanism's facet `inspection`: inspections (num_sequences, num_heads), each with
   its arrays (inspection_take); of a sequence without a kept key all is 0. */
void attention_inspect(const struct attention_call *call, struct inspection *inspections, void *saved,
                       void *scratch);

/* The mechanism's own loss, summed over units in order; its gradient is added into dparams (NULL: value
 * only). 0 where it has none. */
double attention_auxiliary(const struct attention_call *call, float *dparams, void *saved, void *scratch);

#endif
