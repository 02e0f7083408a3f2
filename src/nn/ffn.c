/* Linear, GELU or ReLU, dropout, Linear.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/ffn.h"

#include <stdio.h>

enum { COLUMNS = 384 }; /* columns that go through the activation at a time */

const char *const ffn_activations[] = {"gelu", "relu", NULL};

hashattn_status ffn_describe(struct host *host, struct params *params, const char *name, size_t dim,
                             size_t wide, enum ffn_activation activation, struct ffn *ffn)
{
    char text[PARAM_NAME];
    ffn->activation = activation;
    snprintf(text, sizeof text, "%s.intermediate.dense", name);
    TRY(dense_describe(host, params, text, dim, wide, &ffn->first));
    snprintf(text, sizeof text, "%s.output.dense", name);
    return dense_describe(host, params, text, wide, dim, &ffn->second);
}

void ffn_activate(const struct ffn *ffn, const struct kernels *kernels, float *y, const float *x, size_t n)
{
    if (ffn->activation == FFN_RELU)
        kernels->rows.gate(y, x, x, n);
    else
        kernels->layers.gelu(y, x, n);
}

/* A range of columns goes through the activation, and in bf16 is rounded, while it is in the second-level
   cache; all columns at once if threads share them. */
void ffn_forward(const struct ffn *ffn, const struct rows *rows, const float *values,
                 const struct dropout *dropout, uint64_t key, float *y, float *before, float *after,
                 const float *x, size_t first, size_t n, bf16 *halves, struct watch *watch)
{
    const struct kernels *kernels = rows->kernels;
    struct pool *pool = rows_tile_pool(rows);
    size_t wide = ffn->first.out, range = pool_threads(pool) == 1 ? COLUMNS : wide;
    const void *left = dense_left(&ffn->first, kernels, halves, x, n), *middle = NULL;
    bf16 *rounded = halves == NULL ? NULL : halves + n * weights_left_width(ffn->first.in);
    if (dropout->threshold == 0 && ffn->second.precision == PRECISION_BF16 && wide % 2 == 0)
        middle = rounded;
    for (size_t c = 0; c < wide; c += range) {
        size_t count = size_min(range, wide - c);
        dense_forward_left(&ffn->first, kernels, pool, values, before, left, n, c, count);
        watch_lap(watch, PROFILE_PRODUCTS);
        for (size_t i = 0; i < n; i++)
            ffn_activate(ffn, kernels, after + i * wide + c, before + i * wide + c, count);
        if (middle != NULL)
            kernels->bf16.round(rounded + c, wide, after + c, wide, n, count);
        watch_lap(watch, PROFILE_GELU);
    }
    dropout_rows(dropout, key, rows, after, after, first, n, wide);
    watch_lap(watch, PROFILE_DROPOUT);
    if (middle == NULL)
        middle = dense_left(&ffn->second, kernels, rounded, after, n);
    dense_forward_left(&ffn->second, kernels, pool, values, y, middle, n, 0, ffn->second.out);
    watch_lap(watch, PROFILE_PRODUCTS);
}

/* wide = the rows after dropout; with GELU also slope = their derivative. */
static void activate_again(const struct ffn *ffn, const struct dropout *dropout, uint64_t key,
                           const struct rows *rows, float *wide, float *slope, const float *before,
                           size_t first, size_t n)
{
    size_t width = ffn->first.out;
    if (ffn->activation == FFN_GELU) {
        dropout_gelu_again(dropout, key, rows, wide, slope, before, first, n, width);
        return;
    }
    ffn_activate(ffn, rows->kernels, wide, before, n * width);
    dropout_rows(dropout, key, rows, wide, wide, first, n, width);
}

/* `wide` holds the rows after dropout for the gradient of the second layer's weights, and then receives the
   gradient of that layer's input. */
void ffn_backward(const struct ffn *ffn, const struct rows *rows, const float *values, struct slice gradients,
                  const struct dropout *dropout, uint64_t key, float *dx, float *wide, float *slope,
                  const float *dy, const float *before, const float *x, size_t first, size_t n,
                  struct watch *watch)
{
    const struct kernels *kernels = rows->kernels;
    size_t width = ffn->first.out;
    activate_again(ffn, dropout, key, rows, wide, slope, before, first, n);
    watch_lap(watch, PROFILE_GELU);
    dense_backward(&ffn->second, kernels, values, gradients, wide, false, dy, wide, n);
    watch_lap(watch, PROFILE_PRODUCTS);
    if (ffn->activation == FFN_GELU) {
        kernels->rows.multiply(wide, slope, n * width);
    } else {
        dropout_rows(dropout, key, rows, wide, wide, first, n, width);
        kernels->rows.gate(wide, wide, before, n * width);
    }
    watch_lap(watch, PROFILE_GELU);
    dense_backward(&ffn->first, kernels, values, gradients, dx, false, wide, x, n);
    watch_lap(watch, PROFILE_PRODUCTS);
}
