/* Scores of tokens by a random linear hash, in each round H(x) = x [R; -R] / sqrt(d), R (d, B/2) standard
   normal; for odd B one direction lacks its opposite (Kitaev et al. 2020, Reformer). The same for queries and
   keys; joint: H(q) + H(k), computed as one sum. Cost: n d B operations for n tokens and a round.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_LSH_HASH_H
#define PARTS_LSH_HASH_H

#include "parts/groups/grouped_members.h"

/* Bytes of a scorer for rows of `dim` numbers. */
size_t lsh_size(size_t dim, const struct grouped *grouped);

/* Draws R in that memory, and returns the scorer of the problem's rows. More rounds do not change the first
   ones. */
const void *lsh_open(const struct problem *problem, const struct grouped *grouped, uint64_t key,
                     void *memory);

/* The score function of struct grouped. */
void lsh_score(const void *scorer, enum group_side side, size_t first, size_t count, float *z, int worker);

#endif
