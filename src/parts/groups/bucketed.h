/* Attention inside buckets of tokens, from scores of the tokens for the buckets to out and gradients: what
   mechanisms share that differ in where the scores come from (learned, drawn at random, free of content).
   1. z (n, B): scores of queries and of keys, or with `joint` one for both.
   2. p_i = softmax of z_i over the buckets. With `balance` rounds: of BUCKETED_SHARPNESS times z_i, centred
   and of variance 1 over the buckets, and made fair to tokens and buckets (balance.h). Each bucket takes the
      capacity_of(n_q) queries with the largest p and, independently, the capacity_of(n_k) keys. Joint, its
      keys are its queries.
      `by_token` (joint): each token goes to the bucket where z_i is largest alone, ties to the lower one.
   3. Softmax attention inside the buckets, merged (bucket_attention.h), of rows that may be normed as they
      are gathered (plain_norm.h).
   Membership has no gradient. Saved: the lists, and two floats a query. Cost beyond the pairs: the scores, 32
   countings of them at most, sqrt(2) n d numbers gathered, normed and put together. Scratch is linear in n.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKETED_H
#define PARTS_BUCKETED_H

#include "parts/groups/balance.h"
#include "parts/groups/bucket_attention.h"
#include "parts/groups/bucketing_options.h"
#include "parts/rows/view.h"

enum bucketed_side { SIDE_QUERIES, SIDE_KEYS };

/* Rows for which scores are asked at once. */
enum { SCORE_ROWS = 64 };

/* Deviation of a token's scores before balancing. Of 1, 2, 3 and 5 the third was best, by little: 29.5, 31.0,
   31.2 and 30.7 per cent of attention caught (docs/RESULTS.md 8). */
#define BUCKETED_SHARPNESS 3.0f

struct bucketed {
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
    /* z (count, num_buckets), adjacent, of rows first .. first + count - 1, count <= SCORE_ROWS; joint: of
       both, and side is SIDE_QUERIES. `worker` names its scratch. */
    void (*score)(const void *argument, enum bucketed_side side, size_t first, size_t count, float *z,
                  int worker);
    const void *argument;
    void *saved, *scratch;
};

/* The sizes follow from all that stands before the rows. They never fall as rows are added. */
size_t bucketed_saved_size(const struct bucketed *bucketed);
size_t bucketed_scratch_size(const struct bucketed *bucketed);
/* Of it, what the lists need. */
size_t bucketed_members_size(const struct bucketed *bucketed);

/* The lists, and what softmax keeps, in the saved block. */
struct bucketed_saved {
    struct members queries, keys; /* joint: the same */
    struct softmax_rows rows;
    size_t bytes;
};
struct bucketed_saved bucketed_saved(const struct bucketed *bucketed);

/* Room in the lists of n tokens. */
size_t bucketed_places(const struct bucketed *bucketed, size_t n);

/* ---- scores and lists: bucketed_members.c -------------------------------------------------------------- */

/* The lists alone, as forward makes them. */
void bucketed_members(const struct bucketed *bucketed);
/* Who would be where if buckets took the best of the whole sequence, by_token or not: the lists of a side, or
   the bucket of each token that has the largest (balanced) p; either may be NULL. */
void bucketed_whole(const struct bucketed *bucketed, enum bucketed_side side, const struct members *lists,
                    uint32_t *choice, void *scratch);
size_t bucketed_whole_size(const struct bucketed *bucketed);
/* Room in those lists. */
size_t bucketed_whole_places(const struct bucketed *bucketed, size_t n);
/* counts (num_buckets): the tokens of a side that score best in each. */
void bucketed_count_best(const struct bucketed *bucketed, enum bucketed_side side, uint32_t *counts);
/* p <- softmax over the buckets of z (count, num_buckets), in place; largest, sum and factor: (count). */
void bucketed_softmax(const struct kernels *kernels, float *z, size_t num_buckets, size_t count,
                      float *largest, float *sum, float *factor);

/* The place of the largest of z[0 .. num_buckets), ties to the lower; 0 where all are NaN. */
size_t bucketed_best(const float *z, size_t num_buckets);

/* ---- attention: bucketed.c ------------------------------------------------------------------------------
 */

/* All rows as they attend: normed, in the scratch, where that is asked for. */
void bucketed_attending(const struct bucketed *bucketed, struct view *query, struct view *key, void *scratch);
size_t bucketed_attending_size(const struct bucketed *bucketed);

/* Which members of its bucket a query meets. */
enum bucket_sight bucketed_sight(const struct bucketed *bucketed);

void bucketed_forward(const struct bucketed *bucketed, struct view out);
void bucketed_backward(const struct bucketed *bucketed, struct view out, struct view dout,
                       const struct attention_gradients *gradients);

#endif
