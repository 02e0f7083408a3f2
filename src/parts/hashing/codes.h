/* Hash codes of one head: for each row of Q or K and each hash, the signs of hash_bits projections as one
   integer. Kept as (n, num_hashes), uint16_t up to 16 bits and uint32_t above, from forward to backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CODES_H
#define PARTS_CODES_H

#include "parts/hashing/hashing.h"
#include "parts/hashing/unit.h"

/* The codes of one side, queries or keys. */
struct codes {
    const void *data; /* (n, num_hashes) */
    bool wide;        /* uint32_t */
    size_t num_hashes, n;
};

enum { CODES_ROWS = 128 }; /* rows hashed at a time: a copy of them stays in the first cache */

/* What the projection is with these kernels: itself, and for HASH_AUTO the fastest there that hashes these
   planes as well as float32. */
enum hash_projection codes_projection(const struct kernels *kernels, const struct hashing *hashing);

size_t codes_size(const struct hashing *hashing, size_t n); /* bytes; SIZE_MAX when they overflow */
struct codes codes_at(const struct hashing *hashing, const void *data, size_t n);

/* Where the codes of a row begin. */
static inline const void *codes_row(const struct codes *codes, size_t row)
{
    return (const char *)codes->data + row * codes->num_hashes * (codes->wide ? 4 : 2);
}

/* Floats of the work space of codes_hash: CODES_ROWS rows, and what transforms need. */
size_t codes_work(const struct hashing *hashing, size_t dim);

/* Hashes the rows of x into data: the signs of their projections, the same bits on every instruction set. A
   row shorter than UNIT_SHORTEST has code 0. planes: as planes_turn or hadamard_turn left them for the same
   hashing. rows (codes_work floats), where rows lie ld = unit_padded(dim) apart, and squares (CODES_ROWS) are
   work space. False where a row holds NaN or infinity, whose codes are then any: known for nothing, because
   lengths are looked at anyway. */
bool codes_hash(const struct kernels *kernels, void *data, const struct hashing *hashing, const float *x,
                size_t ld_x, size_t n, size_t dim, const void *planes, float *rows, size_t ld,
                float *squares);

#endif
