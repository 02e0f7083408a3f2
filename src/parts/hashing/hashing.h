/* How vectors are hashed: the kind of planes, the number of hashes and their bits, and how products with the
   planes are computed. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASHING_H
#define PARTS_HASHING_H

#include "kernels/kernels.h"

/* Planes by Hadamard matrices are transforms (hadamard.h), the others products (planes.h). */
enum planes_kind { PLANES_GAUSSIAN, PLANES_ORTHOGONAL, PLANES_HADAMARD, PLANES_HADAMARD_PAPER };

struct hashing {
    size_t num_hashes, hash_bits;
    enum hash_projection projection;
    int planes; /* enum planes_kind */
};

#endif
