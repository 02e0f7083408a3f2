/* The quality of a head's groups: of the membership that a mechanism chose and, on the same rows, of two
   that need no learning, with the same number of groups and places.
     own    the mechanism's own scores
     lsh    a random linear hash (lsh_hash.h) of the rows
     smyrf  the same hash of rows made asymmetric first (Daras et al. 2020; Sun et al. 2022, eq. 3):
            F(q) = [q; 0; sqrt(M^2 - |q|^2)], G(k) = [k; sqrt(M^2 - |k|^2); 0], M^2 the largest |q|^2 plus
            the largest |k|^2, so that their distance falls as the dot product of the rows rises. SMYRF
            itself sorts along one direction; here all lists are made alike, so only the hashes differ
   For each: the attention that its pairs hold (attention_caught.h), the number of groups per token, and the
   number of tokens that score best in each group, before lists make the groups equal. Cost: that of
   attention_caught.h, and three times the scores and lists of a forward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_INSPECTION_H
#define PARTS_INSPECTION_H

#include "parts/groups/grouping.h"
#include "parts/inspect/inspected.h"

/* Bytes of scratch in addition to grouped_scratch_size. */
size_t inspection_size(const struct problem_shape *shape, const struct grouped *grouped);
/* Inspects what forward saved in problem->saved, with its scratch in problem->scratch and `behind` for the
   bytes above. The problem's key decides lsh and smyrf. */
void inspection_of(const struct problem *problem, const struct grouped *grouped,
                   struct inspection *inspection, void *behind);

/* Slots of a mechanism with grouping options. */
size_t inspection_scratch_size(const void *options, const struct problem_shape *shape,
                               const struct score_source *source);
void inspection_inspect(const struct problem *problem, const struct score_source *source,
                        struct inspection *inspection);

#endif
