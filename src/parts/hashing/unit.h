/* Queries and keys as hashing sees them: rows of unit length. A row shorter than 1e-12 counts as the zero
   vector: it becomes exactly 0, hashes to code 0 and gets gradient 0. A row whose length is beyond the range
   of float32 has length 1 like any other, and the largest float for its norm: its gradient, a number below
   3e-39 for one of 1 along the unit row, is up to sqrt(dim) times too large.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UNIT_H
#define PARTS_UNIT_H

#include "kernels/kernels.h"

#define UNIT_SHORTEST 1e-12f

/* Floats of a row of work space that holds `width`: whole cache lines. */
size_t unit_padded(size_t width);

/* unit (n, ld), columns past dim 0, and norm (n) of the rows of x. */
void unit_take(const struct kernels *kernels, float *unit, size_t ld, float *norm, const float *x,
               size_t ld_x, size_t n, size_t dim);

#endif
