/* Copies rows between the caller's type, float32 or bfloat16, and float: the only place that widens and
   rounds pieces of rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_ELEMENTS_H
#define PARTS_ELEMENTS_H

#include "kernels/kernels.h"

size_t element_bytes(enum dtype dtype);

/* load: to (rows, cols) = from, with elements of `dtype`. store: the inverse, rounded to nearest. Strides in
   elements. */
void elements_load(const struct kernels *kernels, float *to, size_t ld_to, const void *from, size_t ld_from,
                   enum dtype dtype, size_t rows, size_t cols);
void elements_store(const struct kernels *kernels, void *to, size_t ld_to, enum dtype dtype,
                    const float *from, size_t ld_from, size_t rows, size_t cols);

#endif
