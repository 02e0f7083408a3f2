/* The collision probability of unit vectors whose angle is near 0 or pi. The dot product has lost that angle
   to rounding (COLLISION_NEAR); differences of the vectors have not.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_NEAR_PAIR_H
#define PARTS_NEAR_PAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

/* True for the pairs that slot tiles.collisions counts, and a few more, so that rounding loses none. norms:
   the sum of the squared lengths, each 1 or 0. */
static inline bool near_pair(float dot, float norms)
{
    return norms - 2 * dot < 1.01f * COLLISION_NEAR || norms + 2 * dot < 1.01f * COLLISION_NEAR;
}

/* (1 - angle / pi)^hash_bits of two rows of length 1 or 0; 1 for two zero rows. */
float near_pair_chance(const float *query, const float *key, size_t dim, size_t hash_bits);

#endif
