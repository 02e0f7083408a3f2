/* The three kinds of input.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/input.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static hashattn_status describe_projection(struct host *host, struct params *params,
                                           const struct embed_shape *shape, size_t row_width,
                                           struct dense *projection)
{
    char name[PARAM_NAME];
    snprintf(name, sizeof name, "%sembeddings.projection", shape->prefix == NULL ? "" : shape->prefix);
    return dense_describe(host, params, name, row_width, shape->dim, projection);
}

hashattn_status input_describe(struct host *host, struct params *params, enum input_kind kind,
                               const struct embed_shape *shape, size_t row_width, struct input *input)
{
    *input = (struct input){.kind = kind};
    if (kind != INPUT_GIVEN)
        TRY(embed_describe(host, params, shape, &input->embed));
    input->first = input->end = params->total;
    if (kind == INPUT_FLOATS)
        TRY(describe_projection(host, params, shape, row_width, &input->projection));
    input->end = params->total;
    return HASHATTN_OK;
}

hashattn_status input_fit(struct host *host, struct input *input, size_t rows)
{
    return input->kind == INPUT_GIVEN ? HASHATTN_OK : embed_fit(host, &input->embed, rows);
}

void input_free(struct host *host, struct input *input)
{
    embed_free(host, &input->embed);
}

void input_forward(const struct input *input, const struct rows *rows, const float *values, float *y,
                   const struct input_rows *given, size_t first, size_t n)
{
    assert(input->kind != INPUT_GIVEN);
    if (input->kind == INPUT_FLOATS) {
        const struct dense *dense = &input->projection;
        size_t left = first < rows->count ? rows->count - first : 0, count = size_min(n, left);
        dense_forward(dense, rows->kernels, values, y, given->floats + first * dense->in, n);
        memset(y + count * dense->out, 0, (n - count) * dense->out * sizeof *y); /* instead of the bias */
    }
    embed_forward(&input->embed, rows, values, y, given, first, n);
}

void input_backward_tile(const struct input *input, const struct rows *rows, const float *values,
                         struct slice gradients, const float *dy, const struct input_rows *given,
                         size_t first, size_t n)
{
    const struct dense *dense = &input->projection;
    if (input->kind == INPUT_FLOATS)
        dense_backward(dense, rows->kernels, values, gradients, NULL, false, dy,
                       given->floats + first * dense->in, n);
}

void input_backward(const struct input *input, const struct rows *rows, const float *values,
                    struct slice gradients, const float *dy, const struct input_rows *given)
{
    if (input->kind != INPUT_GIVEN)
        embed_backward(&input->embed, rows, values, gradients, dy, given);
}
