/* Hyperplanes that are rows of blocks H D3 H D2 H D1, H the Hadamard matrix and D random signs. Only the
   signs are drawn: slot hash.codes_hadamard transforms vectors instead of multiplying them. hasher_turn and
   codes_hash come here for these planes. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HADAMARD_H
#define PARTS_HADAMARD_H

#include "parts/hashing/hashing.h"
#include "parts/hashing/planes.h"

/* Whether an enum planes_kind is of this kind. */
bool hadamard_is(int planes);

/* Bytes of the block that hadamard_draw fills; SIZE_MAX when they overflow. */
size_t hadamard_size(const struct planes_form *form);
/* The signs of D depend on (key, bit, block) of the kind `hadamard` and on (key, block) of `hadamard-paper`,
   in which all bits of a hash are rows of one block. */
void hadamard_draw(const struct planes_form *form, uint64_t key, void *block);

/* Words of the planes of a head: the signs as the projection wants them, and the order of the coordinates. */
size_t hadamard_turned(const struct hashing *hashing, size_t dim);
/* The planes of a head: hadamard_draw's at rows turned as by planes_turn. permutation and sign (dim) are work
   space. */
void hadamard_turn(const struct hashing *hashing, size_t dim, uint32_t *turned, const void *block,
                   uint64_t random_key, uint32_t *permutation, float *sign);

/* What hadamard_turn left, for slot hash.codes_hadamard; and the words of work space which that needs. */
struct hadamard hadamard_at(const struct hashing *hashing, size_t dim, const uint32_t *turned);
size_t hadamard_work(const struct hashing *hashing, size_t dim);

#endif
