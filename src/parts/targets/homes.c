/* See the header.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/homes.h"

#include <string.h>

struct homes homes_take(struct arena *arena, size_t n, size_t places)
{
    struct homes homes;
    homes.start = arena_take(arena, size_sum(n, 1), sizeof *homes.start);
    homes.group = arena_take(arena, places, sizeof *homes.group);
    return homes;
}

void homes_by_lists(const struct homes *homes, const struct members *members, size_t n)
{
    homes_find(homes->start, homes->group, members, n);
}

void homes_by_choice(const struct homes *homes, const uint32_t *choice, size_t n, size_t each)
{
    for (size_t i = 0; i <= n; i++)
        homes->start[i] = (uint32_t)(i * each);
    memcpy(homes->group, choice, n * each * sizeof *choice);
}
