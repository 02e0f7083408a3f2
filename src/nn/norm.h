/* Layer normalisation (Ba et al. 2016) over the columns of each row, with learned gain and bias that start at
   1 and 0.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_NORM_H
#define NN_NORM_H

#include "kernels/kernels.h"
#include "nn/params.h"

#define NORM_EPSILON 1e-5 /* the usual one, PyTorch's default */

struct norm {
    size_t dim, gain, bias;
    float epsilon; /* added to the variance */
};
hashattn_status norm_describe(struct host *host, struct params *params, const char *name, size_t dim,
                              double epsilon, struct norm *norm);

/* Computes y (n, dim) from x. statistics (n, 2) is what backward needs in addition to x. Cheap enough that
   callers recompute y in backward instead of storing it. */
void norm_forward(const struct norm *norm, const struct kernels *kernels, const float *values, float *y,
                  float *statistics, const float *x, size_t n);
/* dx += the gradient of x; adds those of gain and bias to gradients. */
void norm_backward(const struct norm *norm, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, const float *dy, const float *x,
                   const float *statistics, size_t n);

#endif
