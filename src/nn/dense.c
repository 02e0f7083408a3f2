/* Three products and two passes over a bias. SPDX-License-Identifier: Apache-2.0 */
#include "nn/dense.h"

#include <math.h>

#include "kernels/product.h"

hashattn_status dense_describe(struct host *host, struct params *params, const char *name, size_t in,
                               size_t out, struct dense *dense)
{
    float scale = (float)(1 / sqrt((double)in));
    *dense = (struct dense){.in = in, .out = out};
    TRY(params_add(host, params, START_UNIFORM, scale, &dense->weight, 2, (size_t[]){out, in}, "%s.weight",
                   name));
    return params_add(host, params, START_UNIFORM, scale, &dense->bias, 1, &out, "%s.bias", name);
}

void dense_forward(const struct dense *dense, const struct kernels *kernels, const float *values, float *y,
                   const float *x, size_t n)
{
    product(kernels, y, dense->out, x, dense->in, false, values + dense->weight, dense->in, true, n,
            dense->out, dense->in, false);
    kernels->add_bias(y, values + dense->bias, n, dense->out);
}

void dense_backward(const struct dense *dense, const struct kernels *kernels, const float *values,
                    struct slice gradients, float *dx, bool add, const float *dy, const float *x, size_t n)
{
    if (dx != NULL)
        product(kernels, dx, dense->in, dy, dense->out, false, values + dense->weight, dense->in, false, n,
                dense->in, dense->out, add);
    product(kernels, slice_at(gradients, dense->weight), dense->in, dy, dense->out, true, x, dense->in, false,
            dense->out, dense->in, n, true);
    kernels->add_bias_backward(slice_at(gradients, dense->bias), dy, n, dense->out);
}
