/* Unit rows over slot hash.unit. Cost: 3 n d operations.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "parts/rows/bounded.h"

size_t unit_padded(size_t width)
{
    const size_t line = MEMORY_ALIGNMENT / sizeof(float);
    return size_sum(width, line - 1) / line * line;
}

/* For a row whose length is beyond float32. */
static void take_long(float *unit, float *norm, const float *x, size_t dim)
{
    double squares = 0;
    for (size_t c = 0; c < dim; c++)
        squares += (double)x[c] * (double)x[c];
    for (size_t c = 0; c < dim; c++)
        unit[c] = (float)((double)x[c] / sqrt(squares));
    *norm = FLT_MAX;
}

void unit_take(const struct kernels *kernels, float *unit, size_t ld, float *norm, const float *x,
               size_t ld_x, size_t n, size_t dim)
{
    kernels->hash.unit(unit, ld, norm, x, ld_x, n, dim, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        if (norm[i] < UNIT_SHORTEST)
            memset(unit + i * ld, 0, ld * sizeof *unit);
        else if (isinf(norm[i]))
            take_long(unit + i * ld, norm + i, x + i * ld_x, dim);
    }
}

void unit_give(const struct kernels *kernels, float *dx, size_t ld_dx, const float *du, const float *unit,
               size_t ld, const float *norm, size_t n, size_t dim)
{
    kernels->hash.unit_backward(dx, ld_dx, du, unit, ld, norm, n, dim, NULL, NULL);
    for (size_t i = 0; i < n; i++)
        if (norm[i] < 1)
            bounded_row(dx + i * ld_dx, dim);
}
