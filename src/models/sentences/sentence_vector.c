/* Sums are in double, row by row.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/sentences/sentence_vector.h"

#include <math.h>
#include <string.h>

void sentence_vector(enum sentence_pooling pooling, const float *rows, size_t count, size_t dim, double *sums,
                     float *vector)
{
    memcpy(vector, rows, dim * sizeof *vector);
    if (pooling == SENTENCE_FIRST)
        return;
    for (size_t c = 0; c < dim; c++)
        sums[c] = (double)rows[c];
    for (size_t i = 1; i < count; i++)
        for (size_t c = 0; c < dim; c++) {
            float value = rows[i * dim + c];
            sums[c] += (double)value;
            vector[c] = value > vector[c] ? value : vector[c];
        }
    for (size_t c = 0; pooling == SENTENCE_MEAN && c < dim; c++)
        vector[c] = (float)(sums[c] / (double)count);
}

void sentence_normalize(float *vector, size_t dim)
{
    double squares = 0;
    for (size_t c = 0; c < dim; c++)
        squares += (double)vector[c] * (double)vector[c];
    double norm = fmax(sqrt(squares), 1e-12);
    for (size_t c = 0; c < dim; c++)
        vector[c] = (float)((double)vector[c] / norm);
}
