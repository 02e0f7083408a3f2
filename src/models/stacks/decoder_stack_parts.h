/* What the forward and the backward pass of the decoder share: the memory of a pass, and what a stage of
   tiles finds there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_DECODER_STACK_PARTS_H
#define MODELS_DECODER_STACK_PARTS_H

#include "models/stacks/decoder_stack.h"

/* Activations of one layer, (padded, dim) unless said otherwise; in evaluation all layers share them. */
struct decoder_layer {
    float *x;                          /* input */
    struct attention_space own, cross; /* cross: key and value are rows of the encoder */
    float *middle, *met;               /* before and after own_norm */
    float *joined, *asked;             /* before and after cross_norm */
    float *before, *sum;               /* (padded, wide) of the ffn; before ffn_norm */
};

struct decoder_space {
    /* Floats of (padded, dim), (padded, wide) and of the encoder's (padded, dim). */
    size_t narrow, wide, encoded;
    size_t kept;      /* layers with arrays of their own */
    float *arrays[2]; /* (kept) of the decoder's rows; of the encoder's */
    float *before;
    float *last, *normed; /* input of the last norm, and its output */
    unsigned char *saved;
    size_t saved_bytes; /* of one layer, both mixings: own first */
    size_t own_bytes;
    unsigned char *mix_scratch;
    float *tiles;
    size_t tile_floats;
    float *dstream; /* backward */
    struct attention_gradients own, cross;
    float *partials;
    size_t bytes;
};

/* One forward or backward pass; the argument of every unit of work. */
struct decoder_run {
    const struct decoder_pass *pass;
    const struct decoder *decoder;
    size_t dim;
    struct rows rows, cross;
    struct decoder_space space;
    struct dropout dropout, attention_dropout;
    size_t layer;
    float *dencoded;
    /* of the current stage of a backward pass */
    void (*tile)(const struct decoder_run *run, const struct block_scratch *scratch, struct slice gradients,
                 size_t first);
    const struct rows *over;
    size_t first, count, chunks;
};

struct decoder_run decoder_run_open(const struct decoder_pass *pass);
const struct decoder_block *decoder_run_block(const struct decoder_run *run); /* of its layer */
struct decoder_layer decoder_run_space(const struct decoder_run *run, size_t layer);
struct block_scratch decoder_run_scratch(const struct decoder_run *run, int worker);
struct input_rows decoder_run_input(const struct decoder_run *run);

/* Sites of dropout in a block; and of the two mixings. */
enum decoder_site { SITE_OWN, SITE_CROSS, SITE_FFN };
uint64_t decoder_site_key(const struct decoder_run *run, enum decoder_site site);
uint64_t decoder_mix_key(const struct decoder_run *run, enum decoder_site site);
/* Applies the dropout of the input to a tile of rows or gradients. */
void decoder_drop_input(const struct decoder_run *run, float *tile, size_t first);
/* The own loss of a mechanism in both attentions of the layer; adds `weight` times its gradient. */
double decoder_own_loss(const struct decoder_run *run, const struct mechanism *mechanism,
                        struct slice gradients, double weight);

#endif
