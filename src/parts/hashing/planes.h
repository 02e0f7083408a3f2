/* Random hyperplanes for sign hashing, in the layout that slot hash.codes reads. Drawn once per call and
   shared by all heads. Each head rotates them by random signs and a permutation of the coordinates, which is
   cheap: a rotation-invariant distribution stays the same, and heads hash differently.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PLANES_H
#define PARTS_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "parts/hashing/hashing.h"

struct planes_form {
    int kind; /* enum planes_kind, except Hadamard planes: see parts/hashing/hadamard.h */
    size_t num_hashes, hash_bits, dim; /* a pool counts as num_hashes hashes with planes of their own */
    bool dense;                        /* layout of slot hash.codes_dense, else of hash.codes */
};

/* Floats of the planes; SIZE_MAX on overflow, here and below. */
size_t planes_count(const struct planes_form *form);

/* Floats of rotated planes. */
size_t planes_rotated_count(const struct planes_form *form);

/* Writes planes (hash_bits, groups, dim, HASH_LANES), or (groups, dim, HASH_LANES) if dense, of length 1,
   unused lanes 0. Bit b of hash h depends only on the kind, the layout and (key, b, h) for gaussian planes,
   and on all hashes of the same bit and block for orthogonal ones; not on the kernels or the threads. work:
   planes_work_size bytes for the pool's threads, aligned as an arena's. */
void planes_draw(const struct kernels *kernels, struct pool *pool, const struct planes_form *form,
                 uint64_t key, float *planes, void *work);
size_t planes_work_size(const struct planes_form *form, size_t workers);

/* rotated[..][c][lane] = sign[c] * planes[..][permutation[c]][lane], drawn from the head's key, in the format
   of the projection (slot hash.pack_planes). rotated has planes_rotated_count floats, enough for any format:
   dim rows, two if dim is 1. permutation and sign (dim) are work space. */
void planes_rotate(const struct kernels *kernels, enum hash_projection projection, void *rotated,
                   const float *planes, const struct planes_form *form, uint64_t random_key,
                   uint32_t *permutation, float *sign);

#endif
