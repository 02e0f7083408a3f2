/* yoso over rows that ranks share. The sums of V per bucket are sums over tokens, so forward, and dV in
   backward, add the tables of the ranks: m 2^tau d_v floats a head for any number of rows. The gradients of
   queries and keys come from pairs, for which the keys pass through all ranks in a ring: every rank meets its
   queries with the keys that visit it, and the keys collect their gradients on the way. If there are many
   more rows than buckets, sums by bucket are sent instead (yoso_bucket_sums.h). A causal problem adds the
   tables of the ranks before this one (for dV: after it) by an exclusive scan; its own rows are computed as
   in one process, and it meets the keys of the ranks before it only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_YOSO_RANKS_H
#define ATTENTION_YOSO_RANKS_H

#include "attention/yoso/yoso_bucket_sums.h"
#include "parts/collisions/pairs.h"
#include "parts/collisions/partner_tables.h"
#include "parts/collisions/table_state.h"
#include "parts/hashing/yoso_options.h"

/* What a message of the ring has of each key. */
struct yoso_visit {
    float *unit, *value; /* (most, width), (most, d_v): unit rows and V */
    void *codes;
    size_t bytes;
};

struct yoso_ranks {
    struct hashing hashing;
    size_t most, width;                 /* keys of a rank, at most; columns of a unit row */
    struct table_state values, weights; /* of V or G; of 1 / m, in forward with normalize sum. Adjacent */
    void *sum_scratch;
    float *others; /* causal: the tables of the ranks before or after */
    /* backward */
    bool by_sums; /* sums by bucket in place of the ring */
    struct yoso_bucket_sums sums;
    struct yoso_visit here, next;
    float *gradient, *next_gradient; /* (most, width), of the keys that visit */
    struct pair_rows visitors;
};

/* Takes the memory from the arena. weighted: forward needs the sums of 1 / m. */
void yoso_ranks_init(struct yoso_ranks *ranks, struct arena *arena, const struct yoso_options *options,
                     const struct problem_shape *shape, bool weighted, bool backward);

/* As tables_sum, with the giving rows of all ranks; causal: of the ranks before this one, or if keys
   receive of those after it. sums: (receiving rows) += the number of collisions / m; NULL: not wanted. */
void yoso_ranks_carry(const struct problem *problem, const struct yoso_ranks *ranks,
                      const struct table_sums *rows, float *sums);
/* As pairs_add, with the keys of all ranks; causal: of those before this one, and its own. pairs: with this
   rank's queries and keys, without sums. work: for `most` keys. */
void yoso_ranks_pairs(const struct problem *problem, struct yoso_ranks *ranks, const struct pairs *pairs,
                      struct pair_work *work, const struct codes *queries, const struct codes *keys);

/* Slots of the mechanism. */
const char *yoso_ranks_refuse(const void *options, const struct problem_shape *shape);
double yoso_ranks_gradient_bytes(const void *options, const struct problem_shape *shape, size_t *exchanges);

#endif
