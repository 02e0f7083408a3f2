/* Queries and keys as hashing sees them: rows of unit length, turned. A row shorter than 1e-12 counts as the
   zero vector: it becomes exactly 0, hashes to code 0 and gets gradient 0.
   The turn is one random permutation and one random sign per coordinate, a cheap rotation that differs from
   head to head: planes whose law no rotation changes (gaussian, orthogonal) keep that law for each head, yet
   different heads hash differently. Dot products, lengths and differences are the same in turned space, so
   everything up to the gradient of a unit row is computed there. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UNIT_H
#define PARTS_UNIT_H

#include "kernels/kernels.h"

#define UNIT_SHORTEST 1e-12f

struct turn {
    uint32_t *permutation; /* (dim) or NULL: not turned */
    float *sign;           /* (dim) or NULL */
};

/* Draws the turn of one head. */
void turn_draw(const struct turn *turn, uint64_t random_key, size_t dim);

/* unit (n, ld), columns past dim 0, and norm (n) of the rows of x. */
void unit_take(const struct kernels *kernels, float *unit, size_t ld, float *norm, const float *x,
               size_t ld_x, size_t n, size_t dim, const struct turn *turn);

#endif
