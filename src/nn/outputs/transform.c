/* Linear, GELU, layer norm.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/transform.h"

#include <stdio.h>
#include <string.h>

hashattn_status transform_describe(struct host *host, struct params *params, const char *name, size_t dim,
                                   double epsilon, struct transform *transform)
{
    char text[PARAM_NAME];
    transform->first = params->total;
    snprintf(text, sizeof text, "%s.dense", name);
    TRY(dense_describe(host, params, text, dim, dim, &transform->dense));
    snprintf(text, sizeof text, "%s.layer_norm", name);
    TRY(norm_describe(host, params, text, dim, epsilon, &transform->norm));
    transform->end = params->total;
    return HASHATTN_OK;
}

/* Rows after GELU, slopes, the gradient of the rows after GELU, statistics of the norm. */
size_t transform_scratch(const struct transform *transform)
{
    return 3 * transform->norm.dim + 2;
}

void transform_forward(const struct transform *transform, const struct kernels *kernels, const float *values,
                       float *y, float *before, float *scratch, const float *x, size_t n)
{
    size_t dim = transform->norm.dim;
    float *after = scratch, *statistics = scratch + 3 * n * dim;
    dense_forward(&transform->dense, kernels, values, before, x, n);
    kernels->layers.gelu(after, before, n * dim);
    norm_forward(&transform->norm, kernels, values, y, statistics, after, n);
}

void transform_backward(const struct transform *transform, const struct kernels *kernels, const float *values,
                        struct slice gradients, float *dx, float *scratch, const float *dy,
                        const float *before, const float *x, size_t n)
{
    size_t dim = transform->norm.dim;
    float *after = scratch, *slope = after + n * dim, *dafter = slope + n * dim,
          *statistics = dafter + n * dim;
    kernels->layers.gelu_again(after, slope, before, n * dim, 0, 0, 0, 1);
    norm_forward(&transform->norm, kernels, values, dafter, statistics, after, n); /* for the statistics */
    memset(dafter, 0, n * dim * sizeof *dafter);
    norm_backward(&transform->norm, kernels, values, gradients, dafter, dy, after, statistics, n);
    kernels->rows.multiply(dafter, slope, n * dim);
    dense_backward(&transform->dense, kernels, values, gradients, dx, false, dafter, x, n);
}
