/* Hyperplanes that are rows of blocks H D3 H D2 H D1, H the Hadamard matrix and D random signs. Only the
   signs are drawn: slot hash.codes_hadamard transforms vectors instead of multiplying them. hasher_turn and
   codes_hash call this file for such planes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HADAMARD_H
#define PARTS_HADAMARD_H

#include "parts/hashing/hashing.h"
#include "parts/hashing/planes.h"

/* true if an enum planes_kind is of this kind. */
bool hadamard_is(int planes);

/* Bytes of the block that hadamard_draw fills; SIZE_MAX on overflow. */
size_t hadamard_size(const struct planes_form *form);
/* Draws the signs of D. They depend on (key, bit, block) for `hadamard`, and on (key, block) for
   `hadamard-paper`, where all bits of a hash are rows of one block. */
void hadamard_draw(const struct planes_form *form, uint64_t key, void *block);

/* Words of the planes of a head: signs in the projection's format, and the order of the coordinates. */
size_t hadamard_rotated_count(const struct hashing *hashing, size_t dim);
/* The planes of a head: rotates those of hadamard_draw as planes_rotate does. permutation and sign (dim) are
   work space. */
void hadamard_rotate(const struct hashing *hashing, size_t dim, uint32_t *rotated, const void *block,
                     uint64_t random_key, uint32_t *permutation, float *sign);

/* The result of hadamard_rotate as slot hash.codes_hadamard takes it; and the slot's work space in words. */
struct hadamard hadamard_at(const struct hashing *hashing, size_t dim, const uint32_t *rotated);
size_t hadamard_work(const struct hashing *hashing, size_t dim);

#endif
