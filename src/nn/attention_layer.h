/* A layer of multi-head attention around mechanisms: of rows to themselves, or to those of another stack.
   Three dense layers compute queries, keys and values, a mechanism mixes each sequence per head, an optional
   convolution of the values is added, and an output dense layer follows. The dense parts work on tiles of
   rows; `mix` works on the whole batch between them: groups of heads, each with its mechanism, one group
   after another. A mechanism's own learned parameters are rows of the model like all others, (its heads,
   rows, cols) each; they are gathered per head for the call, and their gradients are scattered back. Names:
   NAME.query, .key, .value, .output.dense, .conv.weight; for a mechanism's own NAME.own.ROW, or
   NAME.own.MECHANISM.ROW if heads are mixed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_ATTENTION_LAYER_H
#define NN_ATTENTION_LAYER_H

#include "attention/driver/attention.h"
#include "attention/driver/plan_set.h"
#include "nn/convolution.h"
#include "nn/dense.h"
#include "nn/dropout.h"

enum {
    OWN_ROWS = 16,  /* learned tensors of a mechanism, at most */
    HEAD_GROUPS = 8 /* groups of heads in a layer, at most */
};

/* Neighbouring heads with the same mechanism. */
struct head_group {
    const struct mechanism *mechanism;
    const void *options;
    size_t heads;
};

struct attention_layer {
    size_t dim, heads, head_dim;
    size_t max_len;           /* length that the mechanisms' own tensors are made for; 0: unknown */
    enum precision precision; /* of the mechanisms' products: that of the layers */
    bool causal;              /* a token sees earlier ones and itself only; set after description */
    bool plain;               /* the four layers have no biases */
    struct dense query, key, value, output;
    /* Heads that get positions in this layer (--positions layered): NAME.query_position and .key_position
       project sinusoids to their columns, one head after another. */
    struct {
        size_t columns; /* of all these heads; 0: none */
        struct dense query, key;
        size_t num_runs; /* neighbouring columns of queries and keys */
        struct column_run {
            size_t first, count;
        } runs[HEAD_GROUPS];
    } placed;
    struct convolution convolution;
    size_t num_groups;
    struct mixing {
        struct head_group group;
        size_t first_head;
        size_t num_own, own_count; /* tensors of the mechanism, and their floats per head */
        size_t own_offset[OWN_ROWS], own_size[OWN_ROWS]; /* of the first of these heads */
    } mixings[HEAD_GROUPS];
};

/* Parameters are in the block in the order of use: those before mixing, those of mixing, the one after, so
   each part is one contiguous range. */
hashattn_status attention_layer_describe_enter(struct host *host, struct params *params, const char *name,
                                               size_t dim, size_t heads, bool plain,
                                               struct attention_layer *attention);
/* After it: the projections of positions, for heads whose mechanism does not know distances by itself. */
hashattn_status attention_layer_describe_places(struct host *host, struct params *params, const char *name,
                                                const struct head_group *groups, size_t num_groups,
                                                struct attention_layer *attention);
hashattn_status attention_layer_describe_mix(struct host *host, struct params *params, const char *name,
                                             size_t taps, const struct head_group *groups, size_t num_groups,
                                             size_t max_len, struct attention_layer *attention);
hashattn_status attention_layer_describe_leave(struct host *host, struct params *params, const char *name,
                                               struct attention_layer *attention);

/* Gathers the mechanism's parameters of these heads to own (heads, own_count), as calls need them: the model
   has one (heads, rows, cols) tensor per row. */
void mixing_gather_own(const struct mixing *mixing, const float *values, float *own);

/* What mixing a batch needs: the plan of each group, and where it finds its memory. */
struct mix_plan {
    const struct attention_plan *groups[HEAD_GROUPS];
    size_t saved_at[HEAD_GROUPS];        /* of each group in `saved` */
    size_t own_at, down_at;              /* in scratch: the parameters of a group and their gradients */
    size_t attention_at, convolution_at; /* in scratch: that of a group, and of the convolution */
    size_t saved_bytes, scratch_bytes;   /* of one layer; of mix and mix_backward */
};
/* Makes it, with the plans of `set`, which has a place for all groups. REFUSED, with the numbers, if a
   mechanism cannot handle a sequence of this batch. Layers with the same groups of heads share it. */
hashattn_status attention_layer_plan(struct host *host, const struct attention_layer *attention,
                                     const struct rows *rows, struct plan_set *set, struct mix_plan *plan);

/* The arrays of the whole batch, (padded rows, dim) each. */
struct attention_space {
    const struct mix_plan *plan;
    struct dropout dropout; /* of attention weights; off except in training */
    float *query, *key, *value;
    float *context; /* output of the mechanism */
    float *mixed;   /* context + convolution of the values; the same array without a convolution, or without
                       backward */
    unsigned char *saved;   /* saved_bytes of the plan */
    unsigned char *scratch; /* scratch_bytes of it; its contents are lost between calls */
};
/* Their gradients. query, key and value are added to and must start as zeros. */
struct attention_gradients {
    float *query, *key, *value, *mixed;
};

/* On a tile: query, key and value (n, dim) from x (n, dim). halves: scratch of (n, dim + 1) in bf16. pool: as
   in dense_forward_left. */
void attention_layer_enter(const struct attention_layer *attention, const struct kernels *kernels,
                           struct pool *pool, const float *values, float *query, float *key, float *value,
                           const float *x, size_t n, bf16 *halves);
/* Writes dx (n, dim); adds the gradients of the three layers to gradients. */
void attention_layer_enter_backward(const struct attention_layer *attention, const struct kernels *kernels,
                                    const float *values, struct slice gradients, float *dx,
                                    const float *dquery, const float *dkey, const float *dvalue,
                                    const float *x, size_t n);

/* On a tile, after enter: adds the projections of `places` (n, dim), the sinusoids of the rows' positions, to
   the columns of placed heads. work: (n, dim). */
void attention_layer_place(const struct attention_layer *attention, const struct kernels *kernels,
                           const float *values, float *query, float *key, const float *places, size_t n,
                           float *work, bf16 *halves);
/* Adds the gradients of the projections to gradients. */
void attention_layer_place_backward(const struct attention_layer *attention, const struct kernels *kernels,
                                    const float *values, struct slice gradients, const float *dquery,
                                    const float *dkey, const float *places, size_t n, float *work);

/* On the whole batch: space->mixed from query, key and value, with zeros in the rows after the last token. */
void attention_layer_mix(const struct attention_layer *attention, const struct rows *rows,
                         const float *values, const struct attention_space *space, uint64_t call_key);
/* Adds the gradients of the convolution and of the mechanisms' own parameters to gradients. */
void attention_layer_mix_backward(const struct attention_layer *attention, const struct rows *rows,
                                  const float *values, struct slice gradients,
                                  const struct attention_space *space, const struct attention_gradients *d,
                                  uint64_t call_key);

/* The number of heads with this mechanism if it has a loss of its own, otherwise 0. */
size_t attention_layer_auxiliary_heads(const struct attention_layer *attention,
                                       const struct mechanism *mechanism);
/* Returns the mechanism's own loss, summed over sequences and heads; call it after mix. If `gradients.floats`
   is not NULL, adds `weight` times its gradient. */
double attention_layer_auxiliary(const struct attention_layer *attention, const struct rows *rows,
                                 const float *values, const struct mechanism *mechanism,
                                 struct slice gradients, double weight, const struct attention_space *space,
                                 uint64_t call_key);

#endif
