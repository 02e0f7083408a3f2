/* What the groups of a head are worth: of the membership that a mechanism chose, and, on the same rows, of
   two that need no learning, each with as many groups and places.
     own    as the mechanism scores tokens
     lsh    a random linear hash (lsh_hash.h) of rows as they are
     smyrf  the same hash of rows that were made asymmetric first (Daras et al. 2020; Sun et al. 2022, eq. 3):
            F(q) = [q; 0; sqrt(M^2 - |q|^2)], G(k) = [k; sqrt(M^2 - |k|^2); 0], M^2 the largest |q|^2 plus the
            largest |k|^2, so that the distance of F and G falls as the dot product of the rows that attend
            rises. SMYRF itself sorts along one direction; here lists are made as the other two are, so that
            the hashes alone differ.
   Of each: what its pairs hold (attention_caught.h), in how many groups tokens are, and how many tokens
   score best in each group, before lists make the groups equal. Cost: that of attention_caught.h, and three
   times the scores and lists of a forward. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_INSPECTION_H
#define PARTS_INSPECTION_H

#include "parts/groups/grouped.h"
#include "parts/inspect/inspected.h"

/* Bytes of the scratch beyond grouped_scratch_size. */
size_t inspection_size(const struct grouped *grouped);
/* Of what a forward saved in grouped->saved; `chance` is the key of the hashes that are compared. */
void inspection_of(const struct grouped *grouped, uint64_t chance, struct inspection *inspection,
                   void *scratch);

#endif
