/* The members of buckets if ranks share the rows: ranks agree on the lists that one process would make. Each
   scores its own rows. Balancing adds the sums over tokens over the ranks (num_buckets floats a round). For
   each bucket, a rank sends its best rows, up to the bucket's size c, to the owner
   (comm_span_of over the buckets of all rounds), which takes the best of all and sends the list to all.
   Bytes that a rank of R sends for a side of queries or keys (joint: one for both), with N rows, and k of the
   L buckets its own:
     8 (L - k) min(N, c) + 4 (R - 1) k c, and for each of `rounds` hashings balance + 1 sums (comm_sum.h): of
     one float, then of num_buckets, if balance > 0;
   causal with membership strict: each row chooses by itself, 4 (R - 1) N rounds.
   All scores would be 4 (R - 1) N L.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_LISTS_H
#define ATTENTION_LHA_LISTS_H

#include "attention/mechanism.h"
#include "parts/groups/grouping.h"

struct lha_lists {
    const struct problem *problem;
    struct grouped_across across; /* for grouped */
    /* scratch */
    void *sum_scratch;          /* of sums of up to most_summed floats */
    uint32_t *choice;           /* (total, rounds) */
    uint32_t *tokens;           /* (lists, count): the best tokens of this rank */
    float *scores;              /* and their p */
    uint32_t *come_tokens;      /* (owned lists x candidates): rank by rank */
    float *come_scores;         /* the same */
    uint32_t *list_tokens;      /* (workers, candidates): of one list, in order */
    float *list_scores;         /* the same */
    uint32_t *picks;            /* (workers, capacity) */
    struct row_piece *out, *in; /* (ranks) each */
    void *work;                 /* of grouped_find */
    size_t most_summed, workers;
    size_t bytes;
};

/* Takes the memory. most_summed: the most floats that are summed at once. */
struct lha_lists lha_lists_on(const struct grouped *grouped, const struct problem_shape *shape,
                              size_t most_summed, void *block);
/* Of this problem from here on; the struct must stay where it is. */
void lha_lists_open(struct lha_lists *lists, const struct problem *problem);

/* The capacity of a group in the whole sequence. */
size_t lha_lists_capacity(const struct grouped *grouped, size_t total);

/* The lists of a side, (places of the whole sequence), as grouped_members, or with `whole` grouped_whole,
   would make them. Returns `false` after a failure of the ranks: then the lists are not to be used. */
bool lha_lists_agree(const struct lha_lists *lists, const struct grouped *grouped, enum group_side side,
                     bool whole, const struct members *members);
/* lists->choice becomes the choice of grouped_whole for the whole sequence. */
bool lha_lists_choose(const struct lha_lists *lists, const struct grouped *grouped, enum group_side side);

/* What forward over shared rows leaves for backward and the loss: the lists, and numbers of softmax. */
struct lha_lists_saved {
    struct members queries, keys; /* of the whole sequence; joint: the same */
    struct softmax_rows rows;     /* of this rank's queries */
    size_t bytes;
};
struct lha_lists_saved lha_lists_saved_on(const struct grouped *grouped, const struct problem_shape *shape,
                                          void *block);

#endif
