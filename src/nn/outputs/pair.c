/* Plain loops: a few hundred floats per example, once per step.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/pair.h"

void pair_forward(float *y, const float *x, size_t pairs, size_t dim)
{
    for (size_t i = 0; i < pairs; i++, x += 2 * dim, y += PAIR_WIDTH * dim)
        for (size_t c = 0; c < dim; c++) {
            float a = x[c], b = x[dim + c];
            y[c] = a;
            y[dim + c] = b;
            y[2 * dim + c] = a * b;
            y[3 * dim + c] = a - b;
        }
}

void pair_backward(float *dx, const float *dy, const float *x, size_t pairs, size_t dim)
{
    for (size_t i = 0; i < pairs; i++, x += 2 * dim, dx += 2 * dim, dy += PAIR_WIDTH * dim)
        for (size_t c = 0; c < dim; c++) {
            float product = dy[2 * dim + c], difference = dy[3 * dim + c];
            dx[c] = dy[c] + product * x[dim + c] + difference;
            dx[dim + c] = dy[dim + c] + product * x[c] - difference;
        }
}
