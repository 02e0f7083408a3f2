/* Row by row.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/nystrom/segments.h"

#include <string.h>

static size_t first_row(size_t rows, size_t m, size_t segment)
{
    return rows / m * segment + rows % m * segment / m;
}

void segment_means(const struct kernels *kernels, struct view rows, size_t m, float *means)
{
    memset(means, 0, m * rows.cols * sizeof *means);
    for (size_t s = 0; s < m; s++) {
        size_t begin = first_row(rows.rows, m, s), end = first_row(rows.rows, m, s + 1);
        for (size_t i = begin; i < end; i++)
            kernels->rows.axpy(means + s * rows.cols, 1 / (float)(end - begin), view_row(rows, i), rows.cols);
    }
}

void segment_means_backward(const struct kernels *kernels, struct view drows, size_t m, const float *dmeans)
{
    for (size_t s = 0; s < m; s++) {
        size_t begin = first_row(drows.rows, m, s), end = first_row(drows.rows, m, s + 1);
        for (size_t i = begin; i < end; i++)
            kernels->rows.axpy(view_row(drows, i), 1 / (float)(end - begin), dmeans + s * drows.cols,
                               drows.cols);
    }
}
