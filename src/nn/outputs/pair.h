/* Two rows to one: [a, b, a b, a - b], the features of the Long Range Arena's models that match documents.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_PAIR_H
#define NN_PAIR_H

#include <stddef.h>

enum { PAIR_WIDTH = 4 }; /* features per column */

/* y (pairs, 4 dim) of x (2 pairs, dim): rows 2 i and 2 i + 1 become row i. */
void pair_forward(float *y, const float *x, size_t pairs, size_t dim);
/* Writes dx (2 pairs, dim). */
void pair_backward(float *dx, const float *dy, const float *x, size_t pairs, size_t dim);

#endif
