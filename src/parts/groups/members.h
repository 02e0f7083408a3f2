/* Membership of tokens in groups: for each group a rising list of token numbers, and the inverse, for each
   token its places in the lists. A token may be in none, one or several groups if each group takes its
   highest-scoring tokens; it is in exactly one if each token takes its own best group.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_MEMBERS_H
#define PARTS_MEMBERS_H

#include <stdbool.h>

#include "base/memory.h"
#include "base/pool.h"
#include "kernels/kernels.h"

/* Number of n tokens that a group takes: an equal share n / num_groups, enlarged, at least 1 and at most
   n. With `whole` the share is first rounded up, as if n were padded to a multiple of the groups. Never
   falls with n. */
struct capacity {
    size_t num_groups;
    double enlargement;
    bool whole;
};
size_t capacity_of(const struct capacity *capacity, size_t n);

/* The tokens of queries or of keys. */
enum group_side { SIDE_QUERIES, SIDE_KEYS };

struct members {
    size_t num_groups;
    uint32_t *start; /* (num_groups + 1): the list of group b is list[start[b] .. start[b + 1]) */
    uint32_t *list;
};

/* Takes the memory for `places` numbers in all lists together. */
struct members members_take(struct arena *arena, size_t num_groups, size_t places);

/* A good distance of two groups' scores: an odd number of cache lines. If n is a power of two, the lines that
   a tile of scores is written to would otherwise share few cache sets. In lha at n 4096, transposing scores
   then takes 0.43 of the time. */
static inline size_t members_score_distance(size_t n)
{
    return size_product(size_sum(n, 15) / 16 | 1, 16);
}

/* Each group b takes the `count` tokens with the largest scores[b * ld + i], i < n; ties to the lower i. One
   unit of work per group. */
void members_by_group(const struct members *members, const struct kernels *kernels, struct pool *pool,
                      const float *scores, size_t ld, size_t n, size_t count);

/* Token i is only in the groups choice[i * each .. (i + 1) * each), which differ. */
void members_by_token(const struct members *members, const uint32_t *choice, size_t n, size_t each);

static inline size_t members_of(const struct members *members, size_t group)
{
    return members->start[group + 1] - members->start[group];
}

struct places {
    uint32_t *start; /* (n + 1): token i is at list[place[start[i] .. start[i + 1])] */
    uint32_t *place; /* the places of a token, in the order of its groups */
};

struct places places_take(struct arena *arena, size_t n, size_t places);
void places_find(const struct places *places, const struct members *members, size_t n);

/* The groups of each of n tokens: token i is in group[start[i] .. start[i + 1]), none, one or several. */
struct token_groups {
    uint32_t *start, *group;
};

/* Takes the memory for `places` groups of all tokens together. */
struct token_groups token_groups_take(struct arena *arena, size_t n, size_t places);
/* Groups rise. */
void token_groups_find(const struct token_groups *groups, const struct members *members, size_t n);
/* Token i is in choice[i * each .. (i + 1) * each). */
void token_groups_by_choice(const struct token_groups *groups, const uint32_t *choice, size_t n, size_t each);

#endif
