/* How vectors are hashed: kind of planes, number of hashes, bits per hash, and how products with the planes
   are computed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASHING_H
#define PARTS_HASHING_H

#include "kernels/kernels.h"

/* Hadamard planes are transforms (hadamard.h), the others are products (planes.h). */
enum planes_kind { PLANES_GAUSSIAN, PLANES_ORTHOGONAL, PLANES_HADAMARD, PLANES_HADAMARD_PAPER };

struct hashing {
    size_t num_hashes, hash_bits;
    enum hash_projection projection;
    int planes;  /* enum planes_kind */
    size_t pool; /* r < num_hashes: hashes share r planes per bit (slot hash.pooled_codes); 0: each has its
                    own */
};

/* Planes drawn for each bit. */
static inline size_t hashing_drawn(const struct hashing *hashing)
{
    return hashing->pool > 0 ? hashing->pool : hashing->num_hashes;
}

#endif
