/* The classifier head: Linear(dim -> wide), activation, Linear(wide -> classes), on one row per sequence.
   With ReLU and a wide layer it is that of the Long Range Arena; with tanh it is BERT's pooler and
   classifier, and RoBERTa's head; with GELU YOSO's. Rows are computed in full tiles of HEAD_TILE, so
   that every product has the same shape. Arrays therefore hold head_rows(n) rows, and the inputs (x, dlogits)
   are zeros from row n on.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_HEAD_H
#define NN_HEAD_H

#include "nn/dense.h"

enum { HEAD_TILE = 48 };

static inline size_t head_rows(size_t n)
{
    return (n + HEAD_TILE - 1) / HEAD_TILE * HEAD_TILE;
}

enum head_kind { HEAD_RELU, HEAD_TANH, HEAD_GELU };
extern const char *const head_names[]; /* "relu", "tanh", "gelu", NULL */

struct head {
    enum head_kind kind;
    struct dense first, second; /* "classifier.dense", "classifier.out_proj" */
};
hashattn_status head_describe(struct host *host, struct params *params, enum head_kind kind, size_t dim,
                              size_t wide, size_t classes, struct head *head);

/* Floats of `hidden` per row. */
size_t head_kept(const struct head *head);
/* Computes logits (rows, classes) from x (rows, dim), rows = head_rows(n); hidden (rows, head_kept) is kept
   for backward. */
void head_forward(const struct head *head, const struct kernels *kernels, const float *values, float *logits,
                  float *hidden, const float *x, size_t n);
/* Writes dx (rows, dim); dhidden (rows, wide) is scratch; adds the layer's gradients to gradients. */
void head_backward(const struct head *head, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                   const float *hidden, const float *x, size_t n);

#endif
