/* The members of groups, from the scores of tokens for groups. Shared by mechanisms that differ in the source
   of the scores (learned, random, free of content).
   1. z (n, rounds B): scores of queries and of keys, or with `joint` one for both. Each round is a hashing
      into B groups of its own (Sun et al. 2022, footnote 1), to which 2 applies by itself.
   2. p_i = softmax of z_i over the groups of a round. With `balance` rounds: of GROUPED_SHARPNESS times z_i,
   centred and of variance 1 over the groups, balanced across tokens and groups (balance.h). Each group takes
   the capacity_of(n_q) queries with the largest p and, independently, the capacity_of(n_k) keys. With joint,
      its keys are its queries.
      `partition`: each token goes to one group, and groups have equal sizes (partition.h).
      `by_token` (joint): each token goes only to the group where z_i is largest, ties to the lower group.
   Membership has no gradient. Cost: the scores, and at most 32 counts of them. Scratch is linear in n.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUPED_MEMBERS_H
#define PARTS_GROUPED_MEMBERS_H

#include "parts/groups/members.h"
#include "parts/problem/problem.h"
#include "parts/tiles/softmax_rows.h"

/* The tokens are a span of a sequence whose other spans are elsewhere. */
struct grouped_across {
    size_t total;                                    /* tokens of the sequence */
    void (*sum)(void *argument, float *x, size_t n); /* adds x (n) of all spans */
    void *argument;
};

/* Maximum rows per call of `score`. */
enum { SCORE_ROWS = 64 };

/* Standard deviation of a token's scores before balancing. 3 was slightly better than 1, 2 and 5: 31.2
   instead of 29.5, 31.0 and 30.7 per cent of attention captured (docs/answers/lha.md 8). */
#define GROUPED_SHARPNESS 3.0f

/* How tokens are grouped, and the source of their scores. */
struct grouped {
    struct capacity capacity;              /* of the groups of one round */
    size_t rounds;                         /* hashings, at least 1 */
    size_t balance;                        /* rounds of balance.h; 0: none */
    bool joint, by_token, partition, norm; /* not both by_token and partition; norm: rows attend normed */
    /* Writes z (count, grouped_lists), adjacent, for rows first .. first + count - 1, count <= SCORE_ROWS;
       with joint, for both sides, and side is SIDE_QUERIES. `worker` selects its scratch. */
    void (*score)(const void *scorer, enum group_side side, size_t first, size_t count, float *z, int worker);
    const void *scorer;
    const struct grouped_across *across; /* for grouped_find; NULL: the tokens are a whole sequence */
};

/* Number of groups in all rounds: group b of round r has list r * num_groups + b. */
static inline size_t grouped_lists(const struct grouped *grouped)
{
    return size_product(grouped->rounds, grouped->capacity.num_groups);
}

/* Number of places in the lists of n tokens. */
size_t grouped_places(const struct grouped *grouped, size_t n);

/* The saved block: the lists, and the numbers that softmax keeps. */
struct grouped_saved {
    struct members queries, keys; /* joint: the same */
    struct softmax_rows rows;
    size_t bytes;
};
struct grouped_saved grouped_saved_on(const struct problem_shape *shape, const struct grouped *grouped,
                                      void *block);

/* Bytes of the scratch that makes the lists. */
size_t grouped_members_size(const struct problem_shape *shape, const struct grouped *grouped);

/* Makes the lists, as forward does, in problem->saved. */
void grouped_members(const struct problem *problem, const struct grouped *grouped, void *scratch);
/* Membership if groups took the best of the whole sequence, even with by_token: the lists of a side, or for
   each token and round, (n, rounds), the group with the largest (balanced) p; either may be NULL. */
void grouped_whole(const struct problem *problem, const struct grouped *grouped, enum group_side side,
                   const struct members *lists, uint32_t *choice, void *scratch);
size_t grouped_whole_size(const struct problem_shape *shape, const struct grouped *grouped);
/* Number of places in those lists. */
size_t grouped_whole_places(const struct grouped *grouped, size_t n);
/* What a span of a sequence contributes to the choice of members. */
struct grouped_found {
    uint32_t *choice; /* NULL, or (n, rounds): the group of each token and round (by_token), or with `whole`
                         that of its largest p */
    /* NULL, or for each group its `count` best tokens of the span, rising, and their p: (lists, count) */
    uint32_t *tokens;
    float *scores;
    size_t count; /* <= n */
};
/* Scores a side of a span. whole: even with by_token, as grouped_whole; scratch: grouped_whole_size. */
void grouped_find(const struct problem *problem, const struct grouped *grouped, enum group_side side,
                  bool whole, const struct grouped_found *found, void *scratch);
/* counts (grouped_lists): number of tokens of a side that score best in each group of its round. scratch:
   grouped_members_size. */
void grouped_count_best(const struct problem *problem, const struct grouped *grouped, enum group_side side,
                        uint32_t *counts, void *scratch);
/* p <- softmax over the groups of z (count, num_groups), in place; largest, sum and factor: (count). */
void grouped_softmax(const struct kernels *kernels, float *z, size_t num_groups, size_t count, float *largest,
                     float *sum, float *factor);

/* Index of the largest of z[0 .. num_groups), ties to the lower; 0 if all are NaN. */
size_t grouped_best(const float *z, size_t num_groups);

#endif
