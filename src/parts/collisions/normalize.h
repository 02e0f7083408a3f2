/* The normalisation of YOSO's output rows. X (n, dim) is the un-normalised output, Y the output, G the
   gradient of Y; `row_norms` (n) is saved from forward to backward.
     l2    Y = X / max(|X|, 1e-12);  dX = (G - Y <Y, G>) / |X|, 0 where |X| < 1e-12;   row_norms = |X|
     sum   Y = X / S, 0 where S < 1e-30, S_i the sum of row i's weights (row_norms, given by the caller);
           dX = G / S, and S itself has the gradient -<G, Y> / S, which enters the gradient of a pair's weight
           as bias_i: d weight_ij = <dX_i, V_j> + bias_i
     none  Y = X
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_NORMALIZE_H
#define PARTS_NORMALIZE_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "parts/hashing/yoso_options.h"

/* Writes out, with elements of `dtype`, for X = scale * x; x is destroyed, and may be out itself. row_norms:
   written by l2, read by sum, ignored by none. pool: or NULL. */
void normalize_rows(const struct kernels *kernels, struct pool *pool, int kind, void *out, size_t ld_out,
                    enum dtype dtype, float *x, size_t ld_x, float scale, float *row_norms, size_t n,
                    size_t dim);

/* Writes dx, and bias (n) if the kind is sum. */
void normalize_rows_backward(const struct kernels *kernels, int kind, float *dx, size_t ld_dx, float *bias,
                             const float *out, size_t ld_out, const float *dout, size_t ld_dout,
                             const float *row_norms, size_t n, size_t dim);

#endif
