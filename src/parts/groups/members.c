/* Lists by selection or by counting, and their inverse by counting.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/members.h"

#include <string.h>

#include "parts/groups/topk.h"

size_t capacity_of(const struct capacity *capacity, size_t n)
{
    size_t groups = capacity->num_groups;
    double share = capacity->whole ? (double)(n / groups + (n % groups > 0)) : (double)n / (double)groups;
    double enlarged = capacity->enlargement * share;
    size_t count = enlarged < (double)n ? (size_t)enlarged : n;
    return count < 1 && n > 0 ? 1 : count;
}

struct members members_take(struct arena *arena, size_t num_groups, size_t places)
{
    struct members members = {.num_groups = num_groups};
    members.start = arena_take(arena, size_sum(num_groups, 1), sizeof *members.start);
    members.list = arena_take(arena, places, sizeof *members.list);
    return members;
}

struct selection {
    const struct members *members;
    const struct kernels *kernels;
    const float *scores;
    size_t ld, n, count;
};

static void select_group(void *argument, size_t group, int worker)
{
    (void)worker;
    const struct selection *s = argument;
    topk_select(s->kernels, s->scores + group * s->ld, s->n, s->count, s->members->list + group * s->count);
}

void members_by_group(const struct members *members, const struct kernels *kernels, struct pool *pool,
                      const float *scores, size_t ld, size_t n, size_t count)
{
    struct selection selection = {members, kernels, scores, ld, n, count};
    for (size_t b = 0; b <= members->num_groups; b++)
        members->start[b] = (uint32_t)(b * count);
    pool_run(pool, select_group, &selection, members->num_groups);
}

/* start[b + 1] is first a count, then the next free entry of group b, finally the start of group b + 1. */
static void begin_lists(uint32_t *start, size_t lists)
{
    for (size_t b = 0, sum = 0; b < lists; b++) {
        size_t count = start[b + 1];
        start[b + 1] = (uint32_t)sum;
        sum += count;
    }
}

void members_by_token(const struct members *members, const uint32_t *choice, size_t n, size_t each)
{
    uint32_t *start = members->start;
    memset(start, 0, (members->num_groups + 1) * sizeof *start);
    for (size_t c = 0; c < n * each; c++)
        start[choice[c] + 1]++;
    begin_lists(start, members->num_groups);
    for (size_t i = 0; i < n; i++)
        for (size_t c = i * each; c < (i + 1) * each; c++)
            members->list[start[choice[c] + 1]++] = (uint32_t)i;
}

struct places places_take(struct arena *arena, size_t n, size_t places)
{
    struct places taken;
    taken.start = arena_take(arena, size_sum(n, 1), sizeof *taken.start);
    taken.place = arena_take(arena, places, sizeof *taken.place);
    return taken;
}

/* start[i + 1]: the next free entry of token i. */
static void begin_tokens(uint32_t *start, const struct members *members, size_t n)
{
    size_t count = members->start[members->num_groups];
    memset(start, 0, (n + 1) * sizeof *start);
    for (size_t p = 0; p < count; p++)
        start[members->list[p] + 1]++;
    begin_lists(start, n);
}

void places_find(const struct places *places, const struct members *members, size_t n)
{
    size_t count = members->start[members->num_groups];
    uint32_t *start = places->start;
    begin_tokens(start, members, n);
    for (size_t p = 0; p < count; p++)
        places->place[start[members->list[p] + 1]++] = (uint32_t)p;
}

struct token_groups token_groups_take(struct arena *arena, size_t n, size_t places)
{
    struct token_groups groups;
    groups.start = arena_take(arena, size_sum(n, 1), sizeof *groups.start);
    groups.group = arena_take(arena, places, sizeof *groups.group);
    return groups;
}

void token_groups_find(const struct token_groups *groups, const struct members *members, size_t n)
{
    uint32_t *start = groups->start;
    begin_tokens(start, members, n);
    for (size_t b = 0; b < members->num_groups; b++)
        for (size_t p = members->start[b]; p < members->start[b + 1]; p++)
            groups->group[start[members->list[p] + 1]++] = (uint32_t)b;
}

void token_groups_by_choice(const struct token_groups *groups, const uint32_t *choice, size_t n, size_t each)
{
    for (size_t i = 0; i <= n; i++)
        groups->start[i] = (uint32_t)(i * each);
    memcpy(groups->group, choice, n * each * sizeof *choice);
}
