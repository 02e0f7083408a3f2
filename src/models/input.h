/* What enters the trunk: ids, looked up in a table of words; float rows, through one dense layer
   ("embeddings.projection"); or rows that are as wide as the trunk already. Segments and positions are added
   (nn/embed.h), in the last case not. SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_INPUT_H
#define MODELS_INPUT_H

#include "nn/dense.h"
#include "nn/embed.h"

enum input_kind { INPUT_IDS, INPUT_FLOATS, INPUT_GIVEN };

struct input {
    enum input_kind kind;
    struct embed embed;      /* of INPUT_IDS and INPUT_FLOATS */
    struct dense projection; /* of INPUT_FLOATS */
    size_t first, end;       /* the parameters whose gradients are made tile by tile */
};
/* shape->vocab_size is 0 but for INPUT_IDS. */
hashattn_status input_describe(struct host *host, struct params *params, enum input_kind kind,
                               const struct embed_shape *shape, size_t row_width, struct input *input);
hashattn_status input_fit(struct host *host, struct input *input, size_t rows); /* see embed_fit */
void input_free(struct host *host, struct input *input);

/* y (n, dim): rows [first, first + n) of the batch, n a whole tile. Not of INPUT_GIVEN. */
void input_forward(const struct input *input, const struct rows *rows, const float *values, float *y,
                   const struct input_rows *given, size_t first, size_t n);
/* From dy (n, dim), of the same rows: gradients += those of the parameters that are made tile by tile. */
void input_backward_tile(const struct input *input, const struct rows *rows, const float *values,
                         struct slice gradients, const float *dy, const struct input_rows *given,
                         size_t first, size_t n);
/* From dy (all rows, dim): gradients += those of the other parameters. Runs on the pool. */
void input_backward(const struct input *input, const struct rows *rows, struct slice gradients,
                    const float *dy, const struct input_rows *given);

#endif
