/* The whole encoder in double precision, by its definition. It finds parameters by name in the description
   and has no tiles, packing or workspaces. Mechanisms: exact softmax and none. Dropout masks are inputs.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ENCODER_H
#define TESTS_ORACLE_ENCODER_H

#include <stdint.h>

#include "nn/params.h"

enum { ORACLE_LAYERS = 4 };

struct oracle_block {
    size_t dim, heads, wide, taps;
    int softmax;       /* 0: attention returns its values */
    size_t idle_heads; /* this many heads, the first ones, return their values even then */
    int post;          /* post-LN, as in BERT */
    int causal;
    int layered; /* sinusoids are projected to queries and keys, except of the idle heads */
    const struct params *params;
    const double *values;
    char name[64];                                      /* of its parameters: "encoder.layer.0" */
    const float *attention_mask, *wide_mask, *ffn_mask; /* (rows, dim), (rows, wide), (rows, dim), or NULL */
};
/* y (rows, dim) from x: num_sequences sequences in order. */
void oracle_block(const struct oracle_block *block, double *y, const double *x, size_t num_sequences,
                  const size_t *offsets);

struct oracle_encoder {
    struct oracle_block blocks[ORACLE_LAYERS]; /* blocks[0] applies to all, except for the masks */
    size_t layers, classes, max_len;
    int pooling;   /* 0 mean, 1 sum over max_len, 2 first */
    int positions; /* 0 learned, 1 sinusoids; other numbers: none */
    const struct params *params;
    const double *values;
    const float *embed_mask; /* (rows, dim) or NULL */
    int pairs;               /* each example is two sequences; labels and logits are per example */
    size_t num_sequences;
    const size_t *offsets;
    const uint32_t *tokens;
    const int32_t *labels;
    /* A next-token model: labels (rows) are token ids; below 1: no target. classes is vocab_size - 1, the
       loss is a mean over the targets, and row_losses (rows), or NULL, is written. */
    int next_token;
    double *row_losses;
};
/* Mean cross-entropy; logits (num_sequences, classes) may be NULL. */
double oracle_encoder_loss(const struct oracle_encoder *encoder, double *logits);

#endif
