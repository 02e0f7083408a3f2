/* The exchange of rows between the ranks that have them and the ranks that own the buckets. Rows travel by
   place: a rank's places in the order of buckets are, cut at the buckets of each owner, what it sends to
   them. What arrives is in the order of ranks, and a rank's rows in that of places. Cost: one copy of a row
   at either end, and 4 bytes per float and place in a bucket of another rank.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_EXCHANGE_H
#define ATTENTION_LHA_EXCHANGE_H

#include "attention/mechanism.h"
#include "parts/groups/members.h"

/* One side, queries or keys. */
struct lha_side {
    struct members own;     /* places of this rank's rows, by their number here, in all lists */
    struct members owned;   /* this rank's lists, with the numbers of the sequence */
    uint32_t *rows;         /* (owned places) where the row of a place arrives */
    size_t *sent, *arrived; /* (ranks + 1): the own places by owner; what arrives, by rank */
    float *here, *there;    /* (own places, wide), (owned places, wide): rows, sent and arrived */
};

/* places: of the whole sequence. wide: the most floats of a row that travels. */
struct lha_side lha_side_take(struct arena *arena, size_t lists, size_t places, size_t ranks, size_t wide);

/* Cuts the lists of the whole sequence, which must stay where they are, and finds where rows arrive. */
void lha_side_open(const struct problem *problem, const struct members *all, struct lha_side *side);

static inline size_t lha_own_places(const struct lha_side *side)
{
    return side->own.start[side->own.num_groups];
}

static inline size_t lha_owned_places(const struct lha_side *side)
{
    return side->owned.start[side->owned.num_groups];
}

/* What goes to each rank and comes from it: (ranks) each. */
struct lha_pieces {
    struct row_piece *out, *in;
};
struct lha_pieces lha_pieces_take(struct arena *arena, size_t ranks);

/* Sends rows of `width` floats: side->here to side->there on the owners of lists, or with `back` from there
   to here. */
void lha_send(const struct problem *problem, const struct lha_pieces *pieces, const struct lha_side *side,
              size_t width, bool back);

/* Columns [first, first + cols) of rows of `width` floats. */
static inline struct view lha_columns(float *rows, size_t width, size_t first, size_t cols)
{
    return (struct view){.data = rows + first, .cols = cols, .stride = width};
}

/* to_i = from_j for `count` rows i, j = index[i], or i if index is NULL; with `scatter` to_j = from_i. */
void lha_copy(struct pool *pool, struct view to, struct view from, const uint32_t *index, size_t count,
              bool scatter);

#endif
