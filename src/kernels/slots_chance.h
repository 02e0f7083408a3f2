/* Stage chance: normal deviates and the frames that hyperplanes are made of. kernels.h has the rules of all
   contracts. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_CHANCE_H
#define KERNELS_SLOTS_CHANCE_H

#include <stddef.h>
#include <stdint.h>

struct chance_slots {
    /* out (n): what random_normals(key, 0, out, n) of base/random.h gives, some ten times as fast. EXACT. */
    void (*normals)(float *out, uint64_t key, size_t n);

    /* The reflection I - axis axis^T (|axis|^2 = 2) of the columns first .. ld - 1 of `rows` (dim, ld); ld is
       a multiple of HASH_LANES. Column l: dot = sum over c = 0 .. dim - 1, in that order, each step one fused
       multiply-add from 0, of axis[c] * rows[c][l]; then rows[c][l] -= dot * axis[c], fused. EXACT. */
    void (*reflect)(double *rows, size_t ld, size_t first, const double *axis, size_t dim);
};

#endif
