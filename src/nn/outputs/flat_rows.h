/* The rows of a sequence one after another as one row, for outputs that read a whole window (PatchTST's
   "flatten" head; Nie et al. 2023). A sequence shorter than the longest one is at the end, after zeros.
   Cost: one copy of the rows forward and one backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_FLAT_ROWS_H
#define NN_FLAT_ROWS_H

#include "nn/rows.h"

/* y (num_sequences, max_len * dim) of x (rows, dim). Runs on the pool. */
void flat_rows_forward(const struct rows *rows, size_t max_len, float *y, const float *x, size_t dim);
/* Writes dx (padded rows, dim), or adds to it; zeros after the last row. Runs on the pool. */
void flat_rows_backward(const struct rows *rows, size_t max_len, float *dx, bool add, const float *dy,
                        size_t dim);

#endif
