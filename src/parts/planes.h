/* Random hyperplanes for sign hashing, in the layout that slot hash_codes reads. Drawn once per call and
   shared by all heads; each head turns them by random signs and a permutation of the coordinates, a cheap
   rotation: planes whose law no rotation changes keep it, and different heads hash differently.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PLANES_H
#define PARTS_PLANES_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Bytes of the block that planes_draw fills, work space included; SIZE_MAX when they overflow. */
size_t planes_size(int kind, size_t num_hashes, size_t hash_bits, size_t dim);

/* The block begins with the planes, (hash_bits, groups, dim, HASH_LANES), of length 1, unused lanes 0. `kind`
   is an enum yoso_planes. Bit b of hash h depends on (key, b, h) and the kind alone for gaussian planes, and
   on all hashes of the same bit and block for orthogonal ones. */
void planes_draw(int kind, size_t num_hashes, size_t hash_bits, size_t dim, uint64_t key, void *block);

/* Floats of the planes alone. */
size_t planes_count(size_t num_hashes, size_t hash_bits, size_t dim);

/* turned[..][c][lane] = sign[c] * planes[..][permutation[c]][lane], drawn from the head's key, in the form
   that the projection wants (slot hash_planes); room for planes_count floats is enough for any. permutation
   and sign (dim) are work space. */
void planes_turn(const struct kernels *kernels, enum hash_projection projection, void *turned,
                 const float *planes, size_t num_hashes, size_t hash_bits, size_t dim, uint64_t random_key,
                 uint32_t *permutation, float *sign);

#endif
