/* From rows of tokens to one row per sequence: the mean over its tokens, the sum divided by the model's
   longest length (how padded benchmarks' models average, kept for reproduction), or its first token.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_POOLING_H
#define NN_POOLING_H

#include "nn/rows.h"

enum pooling { POOL_MEAN, POOL_MEAN_PADDED, POOL_FIRST };
extern const char *const pooling_names[]; /* "mean", "mean-padded", "first", NULL */

/* y (num_sequences, dim) of x (rows, dim). partial (num_sequences, dim) is scratch. Runs on the pool; a
   sequence is summed in blocks of rows, so the error does not grow with its length. */
void pooling_forward(enum pooling pooling, size_t max_len, const struct rows *rows, float *y, float *partial,
                     const float *x, size_t dim);
/* dx (n, dim), rows [first, first + n) of the batch, is written; zeros after the last token. */
void pooling_backward_rows(enum pooling pooling, size_t max_len, const struct rows *rows, float *dx,
                           const float *dy, size_t first, size_t n, size_t dim);

#endif
