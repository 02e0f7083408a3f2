/* The feed-forward part of a block: Linear(dim -> wide), GELU or ReLU, dropout, Linear(wide -> dim), on a
   tile of rows. It stores the wide rows before the activation; backward recomputes the rows after dropout.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_FFN_H
#define NN_FFN_H

#include "nn/dense.h"
#include "nn/dropout.h"

enum ffn_activation { FFN_GELU, FFN_RELU };
extern const char *const ffn_activations[]; /* "gelu", "relu", NULL */

struct ffn {
    struct dense first, second; /* "NAME.intermediate.dense", "NAME.output.dense" */
    enum ffn_activation activation;
};
hashattn_status ffn_describe(struct host *host, struct params *params, const char *name, size_t dim,
                             size_t wide, enum ffn_activation activation, struct ffn *ffn);

/* The activation of n numbers; y may be x. */
void ffn_activate(const struct ffn *ffn, const struct kernels *kernels, float *y, const float *x, size_t n);

/* Computes y (n, dim) from x (n, dim), rows [first, first + n) of the batch. before (n, wide): the rows
   before the activation, for backward. after (n, wide): scratch; without backward it may be `before`. halves:
   scratch of (n, dim + 1 + wide + 1) in bf16. */
void ffn_forward(const struct ffn *ffn, const struct rows *rows, const float *values,
                 const struct dropout *dropout, uint64_t key, float *y, float *before, float *after,
                 const float *x, size_t first, size_t n, bf16 *halves, struct watch *watch);
/* Writes dx (n, dim); wide and slope (n, wide) are scratch; adds the layer's gradients to gradients. */
void ffn_backward(const struct ffn *ffn, const struct rows *rows, const float *values, struct slice gradients,
                  const struct dropout *dropout, uint64_t key, float *dx, float *wide, float *slope,
                  const float *dy, const float *before, const float *x, size_t first, size_t n,
                  struct watch *watch);

#endif
