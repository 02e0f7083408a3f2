/* Gradients computed in double, for arrays of float32 or bfloat16.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BOUNDED_H
#define PARTS_BOUNDED_H

#include <stddef.h>

/* The largest bfloat16: a gradient of this size stays finite in either type of array. */
#define DOUBLE_MOST 0x1.fep127f

/* x limited to +-DOUBLE_MOST; NaN stays NaN. */
static inline float double_bounded(double x)
{
    const double most = (double)DOUBLE_MOST;
    return (float)(x > most ? most : x < -most ? -most : x);
}

static inline void bounded_row(float *row, size_t n)
{
    for (size_t c = 0; c < n; c++)
        row[c] = double_bounded((double)row[c]);
}

#endif
