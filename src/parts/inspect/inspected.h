/* The results of inspection.h: the numbers of one head on one sequence.
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
    size_t queries_in[IN_GROUPS], keys_in[IN_GROUPS]; /* number of tokens by number of groups */
    uint32_t *best_queries, *best_keys; /* (num_groups) number of tokens that score best in each */
};

struct inspection {
    struct inspected_membership memberships[NUM_INSPECTED];
};
/* Takes the arrays of an inspection; and clears it, as if no pair met. */
void inspection_take(struct inspection *inspection, struct arena *arena, size_t num_groups);
void inspection_clear(struct inspection *inspection, size_t num_groups);

#endif
