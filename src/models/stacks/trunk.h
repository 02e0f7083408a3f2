/* A trunk of blocks: rows in, rows out. The input becomes rows (input.h), Transformer blocks process them,
   and a last norm follows. Pre-LN blocks with a norm at the end: architecture and initial values of the Long
   Range Arena models of YOSO (Zeng et al. 2021, section 4.3 and the released configurations). Post-LN: BERT's
   blocks, with its norm of the embedding instead of the last one. There is no padding: a batch is offsets
   into rows.
   A decoder (Vaswani et al. 2017; Informer, Zhou et al. 2021) is a trunk of post-LN blocks with causal
   self-attention and cross attention to the rows of an encoder, and with a last norm. Every example has one
   sequence in each of the two. All rows are decoded at once: those to be forecast are empty on input.
   Memory in training, floats per row and block: 6 dim + ffn (post-LN: 7 dim + ffn, with cross attention
   11 dim + ffn and 2 dim per encoded row), plus what attention saves, plus 5 dim once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_TRUNK_H
#define MODELS_TRUNK_H

#include "models/input.h"
#include "models/model_config.h"
#include "nn/block.h"

struct trunk {
    struct input input;
    struct block *blocks; /* (layers) */
    struct norm norm;     /* after the last block, or of the embedding */
    bool normed;          /* false: no such norm */
    bool norm_last;       /* it comes after the last block: pre-LN, and if a decoder reads the rows */
    bool post;            /* the blocks are post-LN */
    bool crosses;         /* they have cross attention: a decoder */
    size_t layers, dim, wide, taps;
    size_t first_layer; /* index in the model of its first block; a decoder's follow the encoder's */
    /* Lists of heads, as in the config's plan, for the mixings in order: self-attention of each block; in a
       decoder that and cross attention of each. */
    size_t num_lists;
    struct dropout dropout, attention_dropout; /* applied in training; the latter to attention weights */
    size_t end;                                /* floats of its parameters, which begin the block */
};

/* The trunk of a checked config. tied: an objective uses the embedding table as its output. Free it with
   trunk_free, after a failure too. */
hashattn_status trunk_describe(struct host *host, struct params *params, const struct model_config *config,
                               bool tied, struct trunk *trunk);
/* Block `layer` of such a trunk as one of its own, for a model with a decoder: that of layer 0 has the input,
   that of the last layer the norm. */
hashattn_status trunk_describe_part(struct host *host, struct params *params,
                                    const struct model_config *config, size_t layer, struct trunk *trunk);
/* One block of such a trunk, without norm and dropout around it: INPUT_GIVEN in, the block's rows out. */
hashattn_status trunk_describe_layer(struct host *host, struct params *params,
                                     const struct model_config *config, struct trunk *trunk);
/* A decoder for a trunk of this config, described before: "decoder.". Its heads are those of the lists after
   the encoder's. */
hashattn_status trunk_describe_decoder(struct host *host, struct params *params,
                                       const struct model_config *config, struct trunk *trunk);
void trunk_free(struct host *host, struct trunk *trunk);
/* Floating-point operations of the dense layers of the blocks for one row forward, two per multiplication;
   backward has twice as many. */
double trunk_operations(const struct trunk *trunk);

/* What follows from the shapes of a batch: made once, const while passes run. */
struct trunk_plan {
    const struct trunk *trunk;
    struct rows rows;
    struct rows encoded, cross; /* of a decoder: the encoder's rows; its own, with those as keys */
    bool training;              /* a pass applies dropout, and keeps what backward needs */
    struct mix_plan *lists;     /* (num_lists of the trunk) */
    size_t memory_bytes;        /* of forward and backward: every activation between the two */
    size_t saved_bytes;         /* of these, what attention saves for backward, all layers */
};
/* The most plans of attention that the trunk takes from a set. */
size_t trunk_num_plans(const struct trunk *trunk);
/* encoded: the rows of the encoder, for a decoder; otherwise NULL. lists: (num_lists), filled. REFUSED, with
   the numbers, if a mechanism cannot handle a sequence. */
hashattn_status trunk_plan_make(struct host *host, const struct trunk *trunk, const struct rows *rows,
                                const struct rows *encoded, bool training, struct plan_set *set,
                                struct mix_plan *lists, struct trunk_plan *plan);

/* The arrays of a pass, in its memory. */
struct trunk_space {
    size_t narrow, wide; /* floats of a (padded, dim) and of a (padded, ffn) array */
    size_t encoded;      /* of a (padded encoded rows, dim) array */
    float *given;        /* the input of the first block if the caller owns it, otherwise NULL */
    float *stream;       /* (layers + 1) inputs of the blocks and of the last norm; one in evaluation */
    float *middle, *query, *key, *value, *context, *mixed; /* (layers) (padded, dim) */
    float *sum;    /* (layers) (padded, dim), post-LN; none in evaluation */
    float *before; /* (layers) (padded, ffn); none in evaluation */
    struct {
        float *x, *middle, *query, *context; /* (layers) (padded, dim) */
        float *key, *value;                  /* (layers) (padded encoded rows, dim) */
    } cross;                                 /* of a decoder */
    unsigned char *saved;                    /* (mixings) */
    unsigned char *mix_scratch;
    float *normed; /* (padded, dim) output of the last norm */
    float *tiles;  /* (threads) scratch of tiles */
    size_t tile_floats;
    /* backward */
    float *dstream; /* (padded, dim) */
    struct block_gradients d;
    float *partials; /* (chunks, floats of the largest stage) */
};

struct trunk_pass {
    const struct trunk_plan *plan;
    struct input_rows input; /* INPUT_GIVEN: floats (padded rows, dim), unchanged until backward is over */
    const float *values;     /* parameters, of params_pack */
    uint64_t random_key;
    /* Set after trunk_open. For a decoder: the rows that left the encoder (padded, dim), unchanged until
       backward is over, and the place for their gradient, which backward writes. */
    const float *encoded;
    float *dencoded;
    const struct backward_listener *listener; /* of backward, or NULL */
    size_t
        first_trained; /* backward ends at parameters before this offset, whose gradients stay as they are */
    bool own_losses_only; /* backward computes the gradients of own losses only, without those of rows */
    struct trunk_space space;
};
/* A pass in this memory of memory_bytes. */
struct trunk_pass trunk_open(const struct trunk_plan *plan, struct input_rows input, const float *values,
                             uint64_t random_key, void *memory);

/* A mechanism's own loss, as the trunk computes it. */
struct own_loss {
    const struct mechanism *mechanism;
    size_t heads;  /* number of heads that have it, over all layers */
    double weight; /* of the sum over sequences and heads in the training loss */
    double sum;    /* 0 before forward, which adds to it in training */
};
/* Number of heads of the trunk with an own loss of this mechanism. */
size_t trunk_own_heads(const struct trunk *trunk, const struct mechanism *mechanism);

/* Returns the rows (padded rows, dim) that leave the trunk, in the memory of the pass; in training they stay
   valid until backward is over. */
const float *trunk_forward(const struct trunk_pass *pass, struct own_loss *own, size_t num_own);
/* The same rows. Call after a forward. */
const float *trunk_rows(const struct trunk_pass *pass);
/* The place for the gradient of these rows, (padded rows, dim), before backward. For INPUT_GIVEN, backward
   leaves the gradient of the input rows here. */
float *trunk_gradient(const struct trunk_pass *pass);
/* Adds the gradients of its parameters, including own losses by their weights, to gradients (one block, as
   values). */
void trunk_backward(const struct trunk_pass *pass, float *gradients, const struct own_loss *own,
                    size_t num_own);

#endif
