/* The classifier head: Linear(dim -> wide), ReLU, Linear(wide -> classes), on one row per sequence.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_HEAD_H
#define NN_HEAD_H

#include "nn/dense.h"

struct head {
    struct dense first, second; /* "classifier.dense", "classifier.out_proj" */
};
hashattn_status head_describe(struct host *host, struct params *params, size_t dim, size_t wide,
                              size_t classes, struct head *head);

/* logits (n, classes) of x (n, dim); hidden (n, wide) is kept for backward. */
void head_forward(const struct head *head, const struct kernels *kernels, const float *values, float *logits,
                  float *hidden, const float *x, size_t n);
/* dx (n, dim) is written; dhidden (n, wide) is scratch; gradients += the layer's. */
void head_backward(const struct head *head, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                   const float *hidden, const float *x, size_t n);

#endif
