/* Slot rows.sum_squares, over adjacent rows at once.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/row_squares.h"

#include "base/memory.h"
#include "parts/rows/elements.h"

static double squares_of(const struct kernels *kernels, enum dtype dtype, const void *elements, size_t count)
{
    enum { PIECE = 1024 };
    float piece[PIECE];
    double sum = 0;
    if (dtype == DTYPE_FLOAT32)
        return kernels->rows.sum_squares(elements, count);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t n = size_min(PIECE, count - i);
        elements_load(kernels, piece, n, (const bf16 *)elements + i, n, dtype, 1, n);
        sum += kernels->rows.sum_squares(piece, n);
    }
    return sum;
}

double row_squares(const struct kernels *kernels, struct view rows, const uint8_t *mask, size_t first,
                   size_t end)
{
    size_t step = rows.stride == rows.cols && mask == NULL ? end - first : 1;
    double sum = 0;
    for (size_t i = first; i < end; i += step) {
        const void *row = (const unsigned char *)rows.data + i * rows.stride * element_bytes(rows.dtype);
        if (mask == NULL || mask[i] != 0)
            sum += squares_of(kernels, rows.dtype, row, step * rows.cols);
    }
    return sum;
}
