/* Attention inside groups of tokens, from scores of the tokens for the groups to out and gradients: what
   mechanisms share that differ in where the scores come from (learned, drawn at random, free of content).
   1. z (n, B): scores of queries and of keys, or with `joint` one for both.
   2. p_i = softmax of z_i over the groups. With `balance` rounds: of GROUPED_SHARPNESS times z_i, centred
   and of variance 1 over the groups, and made fair to tokens and groups (balance.h). Each group takes the
      capacity_of(n_q) queries with the largest p and, independently, the capacity_of(n_k) keys. Joint, its
      keys are its queries.
      `by_token` (joint): each token goes to the group where z_i is largest alone, ties to the lower one.
   3. Softmax attention inside the groups, merged (group_attention.h), of rows that may be normed as they
      are gathered (plain_norm.h).
   Membership has no gradient. Saved: the lists, and two floats a query. Cost beyond the pairs: the scores, 32
   countings of them at most, sqrt(2) n d numbers gathered, normed and put together. Scratch is linear in n.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUPED_H
#define PARTS_GROUPED_H

#include "parts/groups/balance.h"
#include "parts/groups/group_attention.h"
#include "parts/groups/grouping_options.h"
#include "parts/rows/view.h"

enum grouped_side { SIDE_QUERIES, SIDE_KEYS };

/* Rows for which scores are asked at once. */
enum { SCORE_ROWS = 64 };

/* Deviation of a token's scores before balancing. Of 1, 2, 3 and 5 the third was best, by little: 29.5, 31.0,
   31.2 and 30.7 per cent of attention caught (docs/RESULTS.md 8). */
#define GROUPED_SHARPNESS 3.0f

struct grouped {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    size_t workers;
    enum precision precision;
    size_t num_queries, num_keys, dim, value_dim;
    struct capacity capacity;
    size_t balance; /* rounds; 0: none */
    bool joint, causal, by_token, norm;
    bool large; /* as in tile_attention.h */
    struct view query, key, value;
    /* z (count, num_groups), adjacent, of rows first .. first + count - 1, count <= SCORE_ROWS; joint: of
       both, and side is SIDE_QUERIES. `worker` names its scratch. */
    void (*score)(const void *argument, enum grouped_side side, size_t first, size_t count, float *z,
                  int worker);
    const void *argument;
    void *saved, *scratch;
};

/* The sizes follow from all that stands before the rows. They never fall as rows are added. */
size_t grouped_saved_size(const struct grouped *grouped);
size_t grouped_scratch_size(const struct grouped *grouped);
/* Of it, what the lists need. */
size_t grouped_members_size(const struct grouped *grouped);

/* The lists, and what softmax keeps, in the saved block. */
struct grouped_saved {
    struct members queries, keys; /* joint: the same */
    struct softmax_rows rows;
    size_t bytes;
};
struct grouped_saved grouped_saved(const struct grouped *grouped);

/* Room in the lists of n tokens. */
size_t grouped_places(const struct grouped *grouped, size_t n);

/* ---- scores and lists: grouped_members.c --------------------------------------------------------------- */

/* The lists alone, as forward makes them. */
void grouped_members(const struct grouped *grouped);
/* Who would be where if groups took the best of the whole sequence, by_token or not: the lists of a side, or
   the group of each token that has the largest (balanced) p; either may be NULL. */
void grouped_whole(const struct grouped *grouped, enum grouped_side side, const struct members *lists,
                   uint32_t *choice, void *scratch);
size_t grouped_whole_size(const struct grouped *grouped);
/* Room in those lists. */
size_t grouped_whole_places(const struct grouped *grouped, size_t n);
/* counts (num_groups): the tokens of a side that score best in each. */
void grouped_count_best(const struct grouped *grouped, enum grouped_side side, uint32_t *counts);
/* p <- softmax over the groups of z (count, num_groups), in place; largest, sum and factor: (count). */
void grouped_softmax(const struct kernels *kernels, float *z, size_t num_groups, size_t count, float *largest,
                     float *sum, float *factor);

/* The place of the largest of z[0 .. num_groups), ties to the lower; 0 where all are NaN. */
size_t grouped_best(const float *z, size_t num_groups);

/* ---- attention: grouped.c ------------------------------------------------------------------------------ */

/* All rows as they attend: normed, in the scratch, where that is asked for. */
void grouped_attending(const struct grouped *grouped, struct view *query, struct view *key, void *scratch);
size_t grouped_attending_size(const struct grouped *grouped);

/* Which members of its group a query meets. */
enum group_sight grouped_sight(const struct grouped *grouped);

void grouped_forward(const struct grouped *grouped, struct view out);
void grouped_backward(const struct grouped *grouped, struct view out, struct view dout,
                      const struct attention_gradients *gradients);

#endif
