/* The slots of stage chance as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_CHANCE_H
#define KERNELS_REF_CHANCE_H

#include <math.h>

#include "base/random.h"
#include "kernels/slots_chance.h"

static void chance_normals(float *out, uint64_t key, size_t n)
{
    random_normals(key, 0, out, n);
}

static void chance_reflect(double *rows, size_t ld, size_t first, const double *axis, size_t dim)
{
    for (size_t l = first; l < ld; l++) {
        double dot = 0;
        for (size_t c = 0; c < dim; c++)
            dot = fma(axis[c], rows[c * ld + l], dot);
        for (size_t c = 0; c < dim; c++)
            rows[c * ld + l] = fma(-dot, axis[c], rows[c * ld + l]);
    }
}

#define REF_CHANCE .chance.normals = chance_normals, .chance.reflect = chance_reflect

#endif
