/* In double, in a fixed order: the same bits everywhere, as for codes.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/density_map.h"

#include <float.h>
#include <math.h>

void density_map_learn(float *centre, float *scale, const float *x, size_t n, size_t dim)
{
    for (size_t c = 0; c < dim; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)x[i * dim + c];
        double mean = sum / (double)n;
        for (size_t i = 0; i < n; i++)
            squares += ((double)x[i * dim + c] - mean) * ((double)x[i * dim + c] - mean);
        double width = fmin(sqrt(squares / (double)n * (double)dim), (double)FLT_MAX);
        centre[c] = (float)mean;
        scale[c] = width < (double)FLT_MIN ? (float)sqrt((double)dim) : (float)width;
    }
}

void density_map_take(float *z, float *norm, const float *x, size_t n, size_t dim, const float *centre,
                      const float *scale)
{
    for (size_t i = 0; i < n; i++) {
        const float *from = x + i * dim;
        float *to = z + i * (dim + 1);
        double square = 1;
        for (size_t c = 0; c < dim; c++) {
            double u = ((double)from[c] - (double)centre[c]) / (double)scale[c];
            square += u * u;
        }
        double length = sqrt(square);
        for (size_t c = 0; c < dim; c++)
            to[c] = (float)(((double)from[c] - (double)centre[c]) / (double)scale[c] / length);
        to[dim] = (float)(1 / length);
        if (norm != NULL)
            norm[i] = (float)fmin(length, (double)FLT_MAX);
    }
}

void density_map_backward(float *dx, const float *dz, const float *norm, size_t n, size_t dim,
                          const float *scale)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++)
            dx[i * dim + c] = (float)((double)dz[i * (dim + 1) + c] / (double)norm[i] / (double)scale[c]);
}

void density_map_invert(float *x, const float *z, size_t n, size_t dim, const float *centre,
                        const float *scale)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++) {
            double u = (double)z[i * (dim + 1) + c] / fmax((double)z[i * (dim + 1) + dim], (double)FLT_MIN);
            double value = (double)centre[c] + (double)scale[c] * u;
            x[i * dim + c] = (float)fmax(-(double)FLT_MAX, fmin(value, (double)FLT_MAX));
        }
}
