/* The groups of each of n tokens: token i is in group[start[i] .. start[i + 1]), none, one or several.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HOMES_H
#define PARTS_HOMES_H

#include "parts/groups/members.h"

struct homes {
    uint32_t *start, *group;
};

/* Takes the memory for `places` groups of all tokens together. */
struct homes homes_take(struct arena *arena, size_t n, size_t places);

void homes_by_lists(const struct homes *homes, const struct members *members, size_t n);
/* Token i is in choice[i * each .. (i + 1) * each). */
void homes_by_choice(const struct homes *homes, const uint32_t *choice, size_t n, size_t each);

#endif
