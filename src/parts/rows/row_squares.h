/* The sum of squares of rows, in double. It is finite if and only if every number is: squares of floats
   cannot overflow a double. Cost: a pass over the rows at the speed of the memory that holds them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_ROW_SQUARES_H
#define PARTS_ROW_SQUARES_H

#include <stdint.h>

#include "parts/rows/view.h"

/* Sum of squares of rows first .. end - 1, float32 or bfloat16. mask (rows), 0 = left out; NULL: none is. */
double row_squares(const struct kernels *kernels, struct view rows, const uint8_t *mask, size_t first,
                   size_t end);

#endif
