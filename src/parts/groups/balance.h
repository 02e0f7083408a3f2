/* Scores of tokens for groups made fair to both, before groups take those that score most: the alternating
   normalisation of Sinkhorn and Knopp (1967). Without it a group takes what stands out in its direction, and
   hashes that learn from attention end with the same few tokens in many groups and half of all tokens in
   none (docs/LHA.md 1.1). From z (num_groups, n), ld apart, p_bi = exp(scale z_bi), r_i = 1 / sum_b p_bi,
   `rounds` times c_b = (n / num_groups) / sum_i r_i p_bi,  r_i = 1 / sum_b c_b p_bi, and in the place of z
   at last c_b r_i p_bi: each token has 1 to give, and each group gets about as much as any other. The same
   bits whatever the threads: sums of tiles are added in order. Cost: one exponential and 4 (rounds + 1)
   operations each. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BALANCE_H
#define PARTS_BALANCE_H

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"

struct balance {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    size_t num_groups, n, ld, rounds;
    float scale;   /* above 0 */
    void *scratch; /* balance_size bytes */
};

size_t balance_size(size_t num_groups, size_t n);

/* z: less the largest of each token; a token whose z are all -inf takes no part, and becomes NaN. rounds is 1
   at least. */
void balance(const struct balance *balance, float *z);

#endif
