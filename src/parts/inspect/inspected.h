/* What inspection.h finds: the numbers of one head on one sequence, for whoever prints them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_INSPECTED_H
#define PARTS_INSPECTED_H

#include <stdint.h>

#include "base/memory.h"

enum inspected { INSPECTED_OWN, INSPECTED_LSH, INSPECTED_SMYRF, NUM_INSPECTED };
extern const char *const inspected_names[]; /* "own", "lsh", "smyrf", NULL */

enum { IN_GROUPS = 5 }; /* 0 to 3, and 4 or more */

struct inspected_membership {
    double utility, bound, pairs;                     /* of attention_caught.h */
    size_t queries_in[IN_GROUPS], keys_in[IN_GROUPS]; /* tokens that are in so many groups */
    uint32_t *best_queries, *best_keys;               /* (num_groups) tokens that score best there */
};

struct inspection {
    struct inspected_membership memberships[NUM_INSPECTED];
};
/* The arrays of one; and all of it 0, as where nobody meets anybody. */
void inspection_take(struct inspection *inspection, struct arena *arena, size_t num_groups);
void inspection_clear(struct inspection *inspection, size_t num_groups);

#endif
