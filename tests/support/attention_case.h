/* One call of attention from plain arrays: copies them to a layout, runs check, forward, auxiliary and,
   if the mechanism has it, backward, and returns plain arrays. All memory of the call ends at an unmapped
   page; memory that is not input is filled with NaN before every pass. A test thus reads: make a case, run
   it, change one thing, run it, compare.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_ATTENTION_CASE_H
#define TESTS_SUPPORT_ATTENTION_CASE_H

#include "attention/driver/attention.h"

enum layout {
    LAYOUT_PACKED,  /* (rows, heads, width) */
    LAYOUT_INSIDE,  /* the same inside a wider matrix, with gaps between rows and between heads */
    LAYOUT_OUTSIDE, /* (heads, rows, width) */
    LAYOUT_APART,   /* each sequence in its own slot, (heads, longest, width) */
};

enum { CASE_SEQUENCES = 16 };

struct attention_case {
    const struct mechanism *mechanism;
    const void *options;
    const struct kernels *kernels; /* NULL: the reference table */
    int threads;                   /* 0: one */
    enum layout layout;
    enum precision precision;
    bool causal;
    double drop; /* rate of the dropout of weights */
    size_t num_sequences, num_heads, head_dim, value_dim;
    size_t max_len;                                       /* for mechanisms whose tensors depend on it */
    size_t queries[CASE_SEQUENCES], keys[CASE_SEQUENCES]; /* lengths */
    uint64_t call_key;
    const uint64_t *sample_ids;
    float start; /* value of every gradient before backward */
    /* Rows of all sequences in order, (rows, heads, width); owned by the case. */
    float *query, *key, *value, *dout, *params;
    uint8_t *key_mask; /* (rows); NULL: no mask */
};

struct attention_result {
    size_t query_rows, key_rows, param_count;
    float *out, *dquery, *dkey, *dvalue, *dparams; /* shaped as the case's arrays */
    float *auxiliary_dparams;                      /* from a start of 0 */
    double auxiliary;
    size_t saved_bytes, scratch_bytes;
};

/* One head of one sequence, not filled. options_size: of the test's struct; it must be the mechanism's. */
struct attention_case attention_case_of_head(const char *mechanism, const void *options, size_t options_size,
                                             size_t n_q, size_t n_k, size_t head_dim, size_t value_dim);
/* Number of learned floats per head. */
size_t attention_case_params(const struct attention_case *problem);
/* Sum of the lengths. */
size_t attention_case_rows(const size_t *lengths, size_t count);
/* Allocates the arrays of a case whose sizes are set and fills them with standard normals from `seed`; each
   number follows (seed, array, index). Adds a mask of ones if `mask`. */
void attention_case_fill(struct attention_case *problem, uint64_t seed, bool mask);
void attention_case_free(struct attention_case *problem);
/* Copies `count` rows of `row` floats. */
void attention_case_take_rows(float *to, size_t first_to, const float *from, size_t first_from, size_t count,
                              size_t row);
/* Copies sequence s of problem to the start of sequence t of other; parameters too. */
void attention_case_take_sequence(struct attention_case *other, size_t t,
                                  const struct attention_case *problem, size_t s);
/* A call as the driver gets it, and its shapes, which a test may change before case_plan. */
struct case_call {
    struct attention_shape shape;
    struct attention_plan plan;
    struct attention_call call;
    _Alignas(64) unsigned char arrays[1024]; /* of the plan */
};
/* Views point at the case's own arrays, packed; offsets has room for 2 (CASE_SEQUENCES + 1). */
struct case_call attention_case_call(const struct attention_case *problem, struct pool *pool,
                                     size_t *offsets);
/* Plans the call and checks it. */
hashattn_status case_plan(struct host *host, struct case_call *made);

struct attention_result attention_case_run(const struct attention_case *problem);
void attention_result_free(struct attention_result *result);
/* Every number of both, bit for bit; `what` names the comparison. */
void attention_case_same_bits(const struct attention_result *a, const struct attention_result *b,
                              const struct attention_case *problem, const char *what);
/* Outputs and gradients of the rows are those of softmax on the same arrays, up to `bound` each. */
void attention_case_near_softmax(const struct attention_case *problem, double bound);

#endif
