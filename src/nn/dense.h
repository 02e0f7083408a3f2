/* The dense layer y = x W^T + b on a tile of rows. W is (out, in) and starts, like b, from U(+-1/sqrt(in)),
   the default of PyTorch's Linear. Cost 2 n in out operations forward and twice that backward, all in
   product(). SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_DENSE_H
#define NN_DENSE_H

#include "kernels/kernels.h"
#include "nn/params.h"

struct dense {
    size_t in, out;
    size_t weight, bias; /* offsets in the block of parameters */
};
hashattn_status dense_describe(struct host *host, struct params *params, const char *name, size_t in,
                               size_t out, struct dense *dense);

/* y (n, out) of x (n, in). */
void dense_forward(const struct dense *dense, const struct kernels *kernels, const float *values, float *y,
                   const float *x, size_t n);
/* dx (n, in) = [add: dx +] dy W; dx may be NULL. gradients += those of W and b. */
void dense_backward(const struct dense *dense, const struct kernels *kernels, const float *values,
                    struct slice gradients, float *dx, bool add, const float *dy, const float *x, size_t n);

#endif
