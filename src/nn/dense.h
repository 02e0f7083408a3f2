/* The dense layer y = x W^T + b on a tile of rows. W is (out, in) and starts, like b, from U(+-1/sqrt(in)),
   the default of PyTorch's Linear. Cost: 2 n in out operations forward and twice that backward, all in
   products. With precision bf16 only the operands of products are rounded to bfloat16; W, its gradient, sums
   and the bias stay float32. The rounded weights, and large float32 weights too, are packed once for all
   passes with the same values (params_pack).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_DENSE_H
#define NN_DENSE_H

#include "kernels/kernels.h"
#include "nn/params.h"

struct dense {
    size_t in, out;
    size_t weight, bias; /* offsets in the block of parameters */
    bool plain;          /* it has no bias */
    enum precision precision;
    size_t packed, packed_backward; /* as in its row of the params */
};
hashattn_status dense_describe(struct host *host, struct params *params, const char *name, size_t in,
                               size_t out, struct dense *dense);

/* The same without b: y = x W^T. */
hashattn_status dense_describe_plain(struct host *host, struct params *params, const char *name, size_t in,
                                     size_t out, struct dense *dense);

/* x (n, in) as products read it: x itself, or in bf16 rounded into `halves` (n, in + 1). Computed once for
   all layers and ranges of columns that share x. */
const void *dense_left(const struct dense *dense, const struct kernels *kernels, bf16 *halves, const float *x,
                       size_t n);
/* Computes columns [first, first + count) of y (n, out) from such an x; first is a multiple of
   WEIGHTS_PANEL. pool: threads that share the columns of large packed weights, with the same bits; NULL: the
   caller alone. */
void dense_forward_left(const struct dense *dense, const struct kernels *kernels, struct pool *pool,
                        const float *values, float *y, const void *left, size_t n, size_t first,
                        size_t count);
/* Computes y (n, out) from x (n, in). */
void dense_forward(const struct dense *dense, const struct kernels *kernels, const float *values, float *y,
                   const float *x, size_t n);
/* The same by the threads of a pool. halves: as in dense_left. In bf16 the depth is cut at other places than
   by dense_forward, which may round a sum once more or less. */
void dense_forward_shared(const struct dense *dense, const struct kernels *kernels, struct pool *pool,
                          const float *values, float *y, const float *x, size_t n, bf16 *halves);
/* dx (n, in) = [add: dx +] dy W. dx may be NULL, or x itself without add. Adds the gradients of W and b to
   gradients. */
void dense_backward(const struct dense *dense, const struct kernels *kernels, const float *values,
                    struct slice gradients, float *dx, bool add, const float *dy, const float *x, size_t n);

#endif
