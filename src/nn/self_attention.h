/* Multi-head self-attention around mechanisms: three dense layers make queries, keys and values, a mechanism
   mixes each sequence per head, an optional convolution of the values is added, one dense layer goes out. The
   dense parts work on tiles of rows; `mix` works on the whole batch, between them: groups of heads, each with
   its mechanism, one group after another. A mechanism's own learned parameters are rows of the model like all
   others, (its heads, rows, cols) each; they are gathered per head for the call, and their gradients put
   back. Names: NAME.query, .key, .value, .output.dense, .conv.weight, and for a mechanism's own NAME.own.ROW,
   or where heads are mixed NAME.own.MECHANISM.ROW.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_SELF_ATTENTION_H
#define NN_SELF_ATTENTION_H

#include "attention/driver/attention.h"
#include "nn/convolution.h"
#include "nn/dense.h"

enum {
    OWN_ROWS = 16,  /* learned tensors that a mechanism may have */
    HEAD_GROUPS = 8 /* groups that the heads of a layer may be in */
};

/* Heads, one beside another, that have the same mechanism. */
struct head_group {
    const struct mechanism *mechanism;
    const void *options;
    size_t heads;
};

struct self_attention {
    size_t dim, heads, head_dim;
    size_t max_len;           /* that the mechanisms' own tensors are made for; 0: unknown */
    enum precision precision; /* of the mechanisms' products: that of the layers */
    bool causal;              /* a token sees those before it and itself; set after description */
    struct dense query, key, value, output;
    struct convolution convolution;
    size_t num_groups;
    struct mixing {
        struct head_group group;
        size_t first_head;
        size_t num_own, own_count; /* tensors of the mechanism, and its floats per head */
        size_t own_offset[OWN_ROWS], own_size[OWN_ROWS]; /* of the first of these heads */
    } mixings[HEAD_GROUPS];
};

/* The parameters stand in the block in the order of use: those before mixing, those of mixing, the one after,
   so that each part is one stretch. */
hashattn_status self_attention_describe_enter(struct host *host, struct params *params, const char *name,
                                              size_t dim, size_t heads, struct self_attention *attention);
hashattn_status self_attention_describe_mix(struct host *host, struct params *params, const char *name,
                                            size_t taps, const struct head_group *groups, size_t num_groups,
                                            size_t max_len, struct self_attention *attention);
hashattn_status self_attention_describe_leave(struct host *host, struct params *params, const char *name,
                                              struct self_attention *attention);

/* Where the rows of the whole batch lie, (padded rows, dim) each. */
struct attention_space {
    float *query, *key, *value;
    float *context; /* what the mechanism wrote */
    float *mixed;   /* context + convolution of the values; the same array where there is no convolution, or
                       no backward */
    void *saved;    /* attention_saved_size */
    void *scratch;  /* mix_scratch_size: dead between calls */
};
/* Gradients beside them. query, key and value are added to and must start as zeros. */
struct attention_gradients {
    float *query, *key, *value, *mixed;
};

/* REFUSED, with the numbers, where a mechanism cannot handle a sequence of this batch. To be asked before a
   batch is computed; layers with the same groups of heads give the same answer. */
hashattn_status self_attention_check(struct host *host, const struct self_attention *attention,
                                     const struct rows *rows);

/* Bytes for one layer's `saved`, and for the scratch of mix and mix_backward. */
size_t self_attention_saved_size(const struct self_attention *attention, const struct rows *rows);
size_t self_attention_scratch_size(const struct self_attention *attention, const struct rows *rows);

/* A tile: query, key and value (n, dim) of x (n, dim). halves: scratch of (n, dim + 1) in bf16. */
void self_attention_enter(const struct self_attention *attention, const struct kernels *kernels,
                          const float *values, float *query, float *key, float *value, const float *x,
                          size_t n, bf16 *halves);
/* dx (n, dim) is written; gradients += those of the three layers. */
void self_attention_enter_backward(const struct self_attention *attention, const struct kernels *kernels,
                                   const float *values, struct slice gradients, float *dx,
                                   const float *dquery, const float *dkey, const float *dvalue,
                                   const float *x, size_t n);

/* The whole batch: space->mixed from query, key and value; zeros in the rows after the last token. */
void self_attention_mix(const struct self_attention *attention, const struct rows *rows, const float *values,
                        const struct attention_space *space, uint64_t call_key);
/* gradients += those of the convolution and of the mechanisms' own parameters. */
void self_attention_mix_backward(const struct self_attention *attention, const struct rows *rows,
                                 const float *values, struct slice gradients,
                                 const struct attention_space *space, const struct attention_gradients *d,
                                 uint64_t call_key);

/* How many heads have this mechanism, if it has a loss of its own; else 0. */
size_t self_attention_auxiliary_heads(const struct self_attention *attention,
                                      const struct mechanism *mechanism);
/* The mechanism's own loss, summed over sequences and heads, after mix; where `gradients.floats` is not NULL,
   `weight` times its gradient is added. */
double self_attention_auxiliary(const struct self_attention *attention, const struct rows *rows,
                                const float *values, const struct mechanism *mechanism,
                                struct slice gradients, double weight, const struct attention_space *space,
                                uint64_t call_key);

#endif
