/* One Transformer block on its own, rows in and rows out: what `bench layer` measures, without embedding,
   pooling and head around it. The encoder runs the same block functions, on tiles of the same height.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_LAYER_H
#define MODELS_LAYER_H

#include "models/encoder.h"
#include "nn/block.h"

struct layer {
    struct params params;
    struct block block;
    struct dropout dropout; /* in training */
};
/* The block that an encoder of this config has in each of its layers. Freed with layer_free. */
hashattn_status layer_new(struct host *host, const struct encoder_config *config, struct layer *layer);
void layer_free(struct host *host, struct layer *layer);

struct layer_pass {
    const struct layer *layer;
    struct rows rows;
    const float *values; /* of params_lay */
    uint64_t random_key;
    bool training; /* dropout on, and what backward needs is kept */
    void *workspace;
};
/* Bytes of the workspace; pass->workspace and values are not looked at. */
size_t layer_workspace_size(const struct layer_pass *pass);
/* Bytes of what attention keeps in it for backward. */
size_t layer_saved_size(const struct layer_pass *pass);

/* y (padded rows, dim) of x (padded rows, dim), which stays until backward is over. */
void layer_forward(const struct layer_pass *pass, float *y, float *x);
/* stream: the gradient of y on the way in, of x on the way out. gradients += those of the parameters. */
void layer_backward(const struct layer_pass *pass, float *stream, float *gradients, float *x);

/* Operations of the dense layers, two per multiplication, for one row forward; backward has twice as many. */
double layer_operations(const struct layer *layer);

#endif
