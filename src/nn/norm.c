/* Layer normalisation by its kernel slot.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/norm.h"

hashattn_status norm_describe(struct host *host, struct params *params, const char *name, size_t dim,
                              double epsilon, struct norm *norm)
{
    norm->dim = dim;
    norm->epsilon = (float)epsilon;
    TRY(params_add(host, params, START_ONES, 0, &norm->gain, 1, &dim, "%s.weight", name));
    return params_add(host, params, START_ZEROS, 0, &norm->bias, 1, &dim, "%s.bias", name);
}

void norm_forward(const struct norm *norm, const struct kernels *kernels, const float *values, float *y,
                  float *statistics, const float *x, size_t n)
{
    kernels->layers.norm(y, statistics, x, values + norm->gain, values + norm->bias, n, norm->dim,
                         norm->epsilon);
}

void norm_backward(const struct norm *norm, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, const float *dy, const float *x,
                   const float *statistics, size_t n)
{
    kernels->layers.norm_backward(dx, slice_at(gradients, norm->gain), slice_at(gradients, norm->bias), dy, x,
                                  statistics, values + norm->gain, n, norm->dim);
}
