/* The decoder of a model of two stacks (Vaswani et al. 2017; Informer, Zhou et al. 2021): blocks of causal
   self-attention, attention to the rows of the encoder, and feed-forward, each with a post-LN residual, and a
   last norm:
     m = LN(x + drop(self x)), c = LN(m + drop(cross(m, encoded))), y = LN(c + drop(ffn c)).
   The encoder is that of encoder_stack.h. Every example has one sequence of each stack. All rows are decoded
   at once: those to be forecast are empty on input. Memory in training, floats per row and block: 10 dim +
   ffn, and 2 dim per encoded row, plus what attention saves.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_DECODER_STACK_H
#define MODELS_DECODER_STACK_H

#include "base/memory.h"
#include "models/trunk.h"

struct decoder_block {
    size_t list; /* of the plan, for `own`; the next one is that of `cross` */
    struct self_attention own, cross;
    struct norm own_norm, cross_norm, ffn_norm;
    struct ffn ffn;
    /* Its ranges of parameters, by the stage that uses them: own queries, keys and values; the mechanism;
       output, norm and the queries of `cross`; keys and values of encoded rows; the mechanism; the rest. */
    size_t enter, own_mix, meet, keys, cross_mix, leave, end;
};

struct decoder {
    struct input input;           /* "decoder.embeddings.projection"; positions are the encoder's */
    struct decoder_block *blocks; /* (layers) "decoder.layer.0" ... */
    struct norm norm;             /* "decoder.layernorm" */
    size_t layers, first, end;
    size_t first_layer;        /* index of its first block in the model: after those of the encoder */
    const struct trunk *trunk; /* of the encoder, which has the same widths and dropout */
};

/* Layer i has list `encoder layers + 2 i` of the plan for self-attention and the next one for `cross`. Call
   it after the trunk is described, whose config this is. Free it with decoder_free, after a failure too. */
hashattn_status decoder_describe(struct host *host, struct params *params, const struct model_config *config,
                                 const struct trunk *trunk, struct decoder *decoder);
void decoder_free(struct host *host, struct decoder *decoder);
hashattn_status decoder_fit(struct host *host, struct decoder *decoder, size_t rows); /* see embed_fit */

/* What follows from the shapes of a batch. */
struct decoder_plan {
    const struct decoder *decoder;
    struct rows rows, encoder; /* of the decoder; of the encoder, as many sequences */
    struct rows cross;         /* queries of the decoder that meet keys of the encoder */
    bool training;
    struct mix_plan *own, *met; /* (layers) of self-attention and of `cross` */
    size_t memory_bytes;        /* of a pass */
    size_t saved_bytes;         /* of these, what attention saves, all layers */
};
/* Takes the arrays of a plan. */
struct decoder_plan decoder_plan_on(const struct decoder *decoder, struct arena *arena);
/* The most plans of attention that it takes from a set. */
size_t decoder_num_plans(const struct decoder *decoder);
/* REFUSED, with the numbers, if a mechanism cannot handle a sequence. */
hashattn_status decoder_plan_make(struct host *host, const struct rows *rows, const struct rows *encoder,
                                  bool training, struct plan_set *set, struct decoder_plan *plan);

struct decoder_pass {
    const struct decoder_plan *plan;
    const float *encoded; /* (padded rows of the encoder, dim), unchanged until backward is over */
    const float *floats;  /* (padded rows, width) input */
    const float *values;
    uint64_t random_key;
    void *memory; /* memory_bytes of the plan */
};
/* Number of heads with an own loss of this mechanism. */
size_t decoder_own_heads(const struct decoder *decoder, const struct mechanism *mechanism);

/* Returns the rows (padded rows, dim) of the last norm, as trunk_forward does. */
const float *decoder_forward(const struct decoder_pass *pass, struct own_loss *own, size_t num_own);
const float *decoder_rows(const struct decoder_pass *pass);
/* The place for their gradient, before backward. */
float *decoder_gradient(const struct decoder_pass *pass);
/* Writes dencoded (padded rows of the encoder, dim), zeros after the last row; adds the gradients of the
   parameters. */
void decoder_backward(const struct decoder_pass *pass, float *gradients, float *dencoded,
                      const struct own_loss *own, size_t num_own);

#endif
