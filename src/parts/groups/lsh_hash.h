/* Random linear hashes for tiles of tokens, in each round H(x) = x [R; -R] / sqrt(d), R (d, B/2) standard
   normal; for odd B one direction lacks its opposite (Kitaev et al. 2020, Reformer). Cost: n d B operations
   for n tokens and a round.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_LSH_HASH_H
#define PARTS_LSH_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct lsh_hash {
    const struct kernels *kernels;
    size_t dim, num_groups, rounds; /* num_groups: of a round */
    const float *directions;        /* lsh_count floats: (rounds, dim, (B + 1) / 2), divided by sqrt(d) */
};

size_t lsh_count(size_t dim, size_t num_groups, size_t rounds);
/* More rounds do not change the first ones. */
void lsh_draw(uint64_t key, size_t dim, size_t num_groups, size_t rounds, float *directions);

/* z (count, rounds, B), adjacent, from count rows of x. add: z +=, where z must also come from this hash. */
void lsh_scores(const struct lsh_hash *hash, const float *x, size_t ld_x, size_t count, float *z, bool add);

#endif
