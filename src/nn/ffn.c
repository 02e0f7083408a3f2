/* Linear, GELU, dropout, Linear. SPDX-License-Identifier: Apache-2.0 */
#include "nn/ffn.h"

#include <stdio.h>

hashattn_status ffn_describe(struct host *host, struct params *params, const char *name, size_t dim,
                             size_t wide, struct ffn *ffn)
{
    char text[PARAM_NAME];
    snprintf(text, sizeof text, "%s.intermediate.dense", name);
    TRY(dense_describe(host, params, text, dim, wide, &ffn->first));
    snprintf(text, sizeof text, "%s.output.dense", name);
    return dense_describe(host, params, text, wide, dim, &ffn->second);
}

void ffn_forward(const struct ffn *ffn, const struct rows *rows, const float *values,
                 const struct dropout *dropout, uint64_t key, float *y, float *before, float *after,
                 const float *x, size_t first, size_t n, struct watch *watch)
{
    size_t wide = ffn->first.out;
    dense_forward(&ffn->first, rows->kernels, values, before, x, n);
    watch_lap(watch, PROFILE_PRODUCTS);
    rows->kernels->gelu(after, before, n * wide);
    watch_lap(watch, PROFILE_GELU);
    dropout_rows(dropout, key, rows, after, after, first, n, wide);
    watch_lap(watch, PROFILE_DROPOUT);
    dense_forward(&ffn->second, rows->kernels, values, y, after, n);
    watch_lap(watch, PROFILE_PRODUCTS);
}

void ffn_backward(const struct ffn *ffn, const struct rows *rows, const float *values, struct slice gradients,
                  const struct dropout *dropout, uint64_t key, float *dx, float *dwide, const float *dy,
                  const float *before, const float *after, const float *x, size_t first, size_t n,
                  struct watch *watch)
{
    size_t wide = ffn->first.out;
    dense_backward(&ffn->second, rows->kernels, values, gradients, dwide, false, dy, after, n);
    watch_lap(watch, PROFILE_PRODUCTS);
    dropout_rows(dropout, key, rows, dwide, dwide, first, n, wide);
    watch_lap(watch, PROFILE_DROPOUT);
    rows->kernels->gelu_backward(dwide, dwide, before, n * wide);
    watch_lap(watch, PROFILE_GELU);
    dense_backward(&ffn->first, rows->kernels, values, gradients, dx, false, dwide, x, n);
    watch_lap(watch, PROFILE_PRODUCTS);
}
