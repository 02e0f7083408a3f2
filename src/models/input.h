/* The input of the trunk: ids, looked up in an embedding table; float rows, through one dense layer
   ("embeddings.projection"); or rows that already have the width of the trunk. Segments and positions are
   added (nn/embed.h), except in the last case.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_INPUT_H
#define MODELS_INPUT_H

#include "nn/dense.h"
#include "nn/embed.h"

enum input_kind { INPUT_IDS, INPUT_FLOATS, INPUT_GIVEN };

struct input {
    enum input_kind kind;
    struct embed embed;      /* for INPUT_IDS and INPUT_FLOATS */
    struct dense projection; /* for INPUT_FLOATS */
    size_t first, end;       /* the range of parameters whose gradients are computed tile by tile */
};
/* shape->vocab_size is 0 except for INPUT_IDS. */
hashattn_status input_describe(struct host *host, struct params *params, enum input_kind kind,
                               const struct embed_shape *shape, size_t row_width, struct input *input);
hashattn_status input_fit(struct host *host, struct input *input, size_t rows); /* see embed_fit */
void input_free(struct host *host, struct input *input);

/* y (n, dim): rows [first, first + n) of the batch, a tile. Not for INPUT_GIVEN. */
void input_forward(const struct input *input, const struct rows *rows, const float *values, float *y,
                   const struct input_rows *given, size_t first, size_t n);
/* From dy (n, dim), of the same rows: adds the gradients of the parameters that are computed tile by tile. */
void input_backward_tile(const struct input *input, const struct rows *rows, const float *values,
                         struct slice gradients, const float *dy, const struct input_rows *given,
                         size_t first, size_t n);
/* From dy (all rows, dim): adds the gradients of the other parameters. Runs on the pool. */
void input_backward(const struct input *input, const struct rows *rows, const float *values,
                    struct slice gradients, const float *dy, const struct input_rows *given);

#endif
