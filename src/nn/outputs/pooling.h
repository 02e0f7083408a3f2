/* The rows of a sequence to one row: the mean of its tokens, their sum divided by the model's longest length
   (the average over padding in published benchmarks, kept to reproduce them), or its first token.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_POOLING_H
#define NN_POOLING_H

#include "nn/rows.h"

enum pooling { POOL_MEAN, POOL_MEAN_PADDED, POOL_FIRST };
extern const char *const pooling_names[]; /* "mean", "mean-padded", "first", NULL */

/* Computes y (num_sequences, dim) from x (rows, dim). partial (num_sequences, dim) is scratch. Runs on the
   pool. A sequence is summed in blocks of rows, so the error does not grow with its length. If ranks share
   sequences, y is the part of the rows here; the sum over ranks is the whole. */
void pooling_forward(enum pooling pooling, size_t max_len, const struct rows *rows, float *y, float *partial,
                     const float *x, size_t dim);
/* Writes dx (padded rows, dim), or adds to it; zeros after the last row. Runs on the pool. */
void pooling_backward(enum pooling pooling, size_t max_len, const struct rows *rows, float *dx, bool add,
                      const float *dy, size_t dim);

#endif
