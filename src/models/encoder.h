/* The model: token and position embedding and Transformer blocks on packed rows, which are the trunk, and
   behind it a classifier (pooling, two-layer head), or, where it predicts the next token, the tied output of
   a causal decoder. Pre-LN blocks and a last norm: architecture and start values of the Long Range Arena
   models of YOSO (reference: Zeng et al. 2021, section 4.3 and the released configurations). Post-LN: BERT's
   blocks, and its norm of the embedding in place of the last one. No padding anywhere: a batch is offsets
   into rows. SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_ENCODER_H
#define MODELS_ENCODER_H

#include "base/options.h"
#include "base/pool.h"
#include "models/head_plan.h"
#include "nn/params.h"
#include "nn/pooling.h"

/* Everything that decides the shape of the parameters and the meaning of the forward pass: the "model" part
 * of config.json. */
struct encoder_config {
    int64_t vocab_size, num_classes,
        max_len; /* from the task's facts; max_len is also the divisor of mean-padded */
    /* From the facts: a causal model of the token after each one, without classes, pooling or head. */
    bool next_token;
    bool
        pairs; /* from the facts: an example is two sequences, and the head sees [a, b, a b, a - b] of them */
    int64_t layers, dim, heads, ffn; /* dim = heads * head_dim */
    int64_t conv_window;             /* taps of YOSO-C's depth-wise convolution, odd; 0 = none */
    int pooling;                     /* enum pooling */
    int norm;                        /* enum block_norm */
    int positions;                   /* enum positions */
    double dropout;
    int precision; /* enum precision: of the products of all dense layers, and inside exact attention */
    struct head_plan plan; /* its options belong to whoever made the config */
};
extern const struct option_row encoder_options[]; /* layers ... precision */

struct encoder;

/* Checks the config (ranges, divisibility, what the mechanism refuses) and describes the parameters. */
hashattn_status encoder_new(struct host *host, const struct encoder_config *config, struct encoder **encoder);
void encoder_free(struct host *host, struct encoder *encoder);
const struct encoder_config *encoder_config_of(const struct encoder *encoder);
const struct params *encoder_params(const struct encoder *encoder);

/* One packed batch. Token ids in [1, vocab_size); sequence s has rows offsets[s] .. offsets[s+1), at least
 * one. */
struct encoder_batch {
    const struct kernels *kernels;
    struct pool *pool;
    size_t num_sequences;
    const size_t *offsets;      /* (num_sequences + 1) */
    const uint16_t *tokens;     /* (rows) */
    const int32_t *labels;      /* (examples: num_sequences, or half of them in pairs), or NULL: no loss. Of a
                                   next-token model (rows): the id of the token after each, below 1: not asked */
    const uint64_t *sample_ids; /* (num_sequences): key dropout and hashing in training; may be NULL in
                                   evaluation */
    uint64_t random_key;        /* (seed, step) in training, (seed, EVALUATION) else */
    size_t mean_over;           /* what the loss is divided by: the examples of all batches of a step; 0:
                                   those of this batch */
    size_t mean_over_tokens;    /* of a next-token model: labels of all batches of a step; 0: of this batch */
    bool training;              /* dropout on, and what backward needs is kept */
    struct profile *profile;    /* or NULL */
    const struct inspector *inspector; /* or NULL; see rows.h */
};

/* Bytes of the one block that forward and backward work in. It holds every activation between the two. */
size_t encoder_workspace_size(const struct encoder *encoder, const struct encoder_batch *batch);
/* Bytes of what attention saved in it for backward (all layers), for the tables of memory. */
size_t encoder_saved_size(const struct encoder *encoder, const struct encoder_batch *batch);

/* values: of params_lay. logits (examples, num_classes) is written; a next-token model has none. Returns the
   mean cross-entropy (see mean_over and mean_over_tokens), 0 without labels; in training, where the mechanism
   has a loss of its own (over a sequence and a head each), plus the sum of that over layers and heads, mean
   over sequences. */
double encoder_forward(const struct encoder *encoder, const struct encoder_batch *batch, const float *values,
                       void *workspace, float *logits);
/* Of a next-token model, after a forward with labels: the rows' losses and hits, in its workspace. */
struct token_scores {
    const double *loss;           /* (rows) nats; 0 where nothing was asked */
    const unsigned char *correct; /* (rows) */
};
struct token_scores encoder_token_scores(const struct encoder *encoder, const struct encoder_batch *batch,
                                         void *workspace);
/* After a training forward with labels: gradients (one block, as values) += d loss. */
void encoder_backward(const struct encoder *encoder, const struct encoder_batch *batch, const float *values,
                      void *workspace, float *gradients);

#endif
