/* Stage chance: normal deviates and the orthonormal frames of hyperplanes. kernels.h has the rules of all
   contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_CHANCE_H
#define KERNELS_SLOTS_CHANCE_H

#include <stddef.h>
#include <stdint.h>

struct chance_slots {
    /* out (n) = random_normals(key, 0, out, n) of base/random.h, about ten times as fast. EXACT. */
    void (*normals)(float *out, uint64_t key, size_t n);

    /* Applies the reflection I - axis axis^T (|axis|^2 = 2) to the columns first .. ld - 1 of `rows` (dim,
       ld); ld is a multiple of HASH_LANES. For column l: dot = sum over c = 0 .. dim - 1, in that order, of
       axis[c] * rows[c][l], from 0, one fused multiply-add per step; then rows[c][l] -= dot * axis[c], fused.
       EXACT. */
    void (*reflect)(double *rows, size_t ld, size_t first, const double *axis, size_t dim);
};

#endif
