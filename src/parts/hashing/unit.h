/* Queries and keys as hashing sees them: rows of unit length. A row shorter than 1e-12 is taken as the zero
   vector: it becomes exactly 0, hashes to code 0 and gets gradient 0. A row whose length exceeds the range
   of float32 also gets length 1, and the largest float as its norm: its gradient, below 3e-39 for a gradient
   of 1 along the unit row, is up to sqrt(dim) times too large.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UNIT_H
#define PARTS_UNIT_H

#include "kernels/kernels.h"

#define UNIT_SHORTEST 1e-12f

/* `width` rounded up to whole cache lines of floats: the stride of work space. */
size_t unit_padded(size_t width);

/* Writes unit (n, ld), zero beyond dim, and norm (n), the lengths of the rows of x. */
void unit_take(const struct kernels *kernels, float *unit, size_t ld, float *norm, const float *x,
               size_t ld_x, size_t n, size_t dim);

/* Backward of unit_take: adds the gradients of x to dx. Division by a short length may leave the range of
   float32; the gradient is then +-DOUBLE_MOST (parts/rows/bounded.h). */
void unit_give(const struct kernels *kernels, float *dx, size_t ld_dx, const float *du, const float *unit,
               size_t ld, const float *norm, size_t n, size_t dim);

#endif
