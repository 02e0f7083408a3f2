/* The reflections that build orthonormal frames (parts/hashing/planes.c), in double. Up to REFLECT_VECTORS
   vectors of columns stay in registers while the sum runs down the rows; a second pass updates the rows.
   Limited by the latency of the sums for narrow frames, then by loads and stores: a frame of 32 x 64 takes 16
   KiB of the first-level cache and has 32 reflections of two passes each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_FRAME_H
#define KERNELS_SIMD_FRAME_H

#include "kernels/simd_math.h"
#include "kernels/slots_chance.h"

enum { REFLECT_VECTORS = 4, REFLECT_COLUMNS = REFLECT_VECTORS * DLEN };

INLINE void reflect_block(const size_t vectors, double *rows, size_t ld, vd dot[REFLECT_VECTORS],
                          const double *axis, size_t dim)
{
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        dot[v] = d_zero();
    for (size_t c = 0; c < dim; c++) {
        vd along = d_set(axis[c]);
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            dot[v] = d_fma(along, d_load(rows + c * ld + v * DLEN), dot[v]);
    }
}

INLINE void reflect_rows(const size_t vectors, double *rows, size_t ld, const vd dot[REFLECT_VECTORS],
                         const double *axis, size_t dim)
{
    for (size_t c = 0; c < dim; c++) {
        vd along = d_set(axis[c]);
        UNROLLED
        for (size_t v = 0; v < vectors; v++) {
            double *at = rows + c * ld + v * DLEN;
            d_store(at, d_fnma(dot[v], along, d_load(at)));
        }
    }
}

/* Columns [at, at + vectors * DLEN); those before `first` keep their values. */
INLINE void reflect_columns(const size_t vectors, double *rows, size_t ld, size_t at, size_t first,
                            const double *axis, size_t dim)
{
    static const double numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    vd dot[REFLECT_VECTORS];
    reflect_block(vectors, rows + at, ld, dot, axis, dim);
    UNROLLED
    for (size_t v = 0; v < vectors; v++) {
        vd column = d_add(d_load(numbers), d_set((double)(at + v * DLEN)));
        dot[v] = d_select(d_less(column, d_set((double)first)), d_zero(), dot[v]);
    }
    reflect_rows(vectors, rows + at, ld, dot, axis, dim);
}

static void chance_reflect(double *rows, size_t ld, size_t first, const double *axis, size_t dim)
{
    for (size_t at = first / DLEN * DLEN, some; at < ld; at += some * DLEN) {
        some = ld - at < REFLECT_COLUMNS ? (ld - at) / DLEN : REFLECT_VECTORS;
        if (some == 4)
            reflect_columns(4, rows, ld, at, first, axis, dim);
        else if (some == 3)
            reflect_columns(3, rows, ld, at, first, axis, dim);
        else if (some == 2)
            reflect_columns(2, rows, ld, at, first, axis, dim);
        else
            reflect_columns(1, rows, ld, at, first, axis, dim);
    }
}

#define SIMD_FRAME .chance.reflect = chance_reflect

#endif
