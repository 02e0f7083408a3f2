/* Softmax attention inside groups, merged over groups: query i meets the keys of every group that holds
   both, and one softmax runs over all pairs (group, key) that it meets, out_i = sum_{b, j} p_i(b,j) v_j,
   p_i(b,j) = exp(s_ij - max_i) / sum_i, s_ij = q_i k_j / sqrt(d). A key that shares two groups with a query
   is met twice and counts twice. A query that meets nothing has out 0 and no gradient, or meets its own key
   (enum group_sight).
   The rows of a group are gathered, so its products run in tiles. Each group stores its part of a query
   (maximum, sum, weighted values) at the query's place in the list, and the places of a query are merged in
   the order of its groups. So groups run in any order and on any thread, with the same bits. Backward
   recomputes the probabilities from these numbers and stores gradients at places likewise. Cost: 2 (d + d_v)
   operations and one exponential per pair met, 2.5 times that backward. Memory: the parts, d_v + 2 floats
   per place (backward 2 d + d_v), and the rows of one group per thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUP_ATTENTION_H
#define PARTS_GROUP_ATTENTION_H

#include "parts/groups/members.h"
#include "parts/rows/view.h"
#include "parts/tiles/double_attention.h"
#include "parts/tiles/softmax_rows.h"
#include "parts/tiles/tile_products.h"
#include "parts/tiles/weight_dropout.h"

/* The keys of its group that a query meets. Unless it is all, queries and keys are the same tokens. For PAST
   and WINDOW they are in the same lists. For OTHERS and EARLIER the lists are in any order and may differ,
   and a query that meets nothing in any group meets its own key. */
enum group_sight {
    SIGHT_ALL,
    SIGHT_PAST,   /* those up to its own position */
    SIGHT_WINDOW, /* the last of those, as many as a group takes of the tokens up to the query (capacity_of):
                     later tokens do not change the window */
    SIGHT_OTHERS, /* other tokens */
    SIGHT_EARLIER /* tokens before its own */
};

static inline bool sight_is_by_token(enum group_sight sight)
{
    return sight == SIGHT_OTHERS || sight == SIGHT_EARLIER;
}

/* true if a query meets a key of its group; both are numbers of tokens. For sights by token. */
static inline bool sight_meets(enum group_sight sight, uint32_t query, uint32_t key)
{
    return sight == SIGHT_OTHERS ? key != query : key < query;
}

/* The keys first .. end - 1 of its group's list that the query at `place` of its own list, `queries`, meets;
   the group has `keys` keys. With a sight by token, only some of them. */
struct seen {
    size_t first, end;
};
struct seen group_seen(enum group_sight sight, const struct capacity *window, const uint32_t *queries,
                       size_t place, size_t keys);

/* The memory depends on these. */
struct group_sizes {
    size_t num_queries, num_keys, dim, value_dim;
    size_t query_places, key_places;   /* in all groups */
    size_t longest_query, longest_key; /* places in one group */
    enum precision precision;
    bool norm; /* queries and keys are normed by plain_norm.h */
    size_t workers;
};

struct group_attention {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    struct group_sizes sizes;
    enum group_sight sight;
    struct capacity window;        /* for SIGHT_WINDOW */
    bool large;                    /* as in tile_attention.h */
    struct weight_dropout dropout; /* of the weights; a pair has a draw in each group that it shares, by its
                                      places in the lists of group first_list + .. Not with `large` */
    size_t first_list;             /* number of the first group, which is not 0 if ranks share the groups */
    struct view query, key, value;
    struct members queries, keys;
    /* The row of each place, if the views do not have a row per token (group_places_forward): then also of
       `rows`, dout and delta. NULL: the token. */
    const uint32_t *query_rows, *key_rows;
    struct softmax_rows rows; /* (num_queries), for queries that meet a key: forward writes, backward reads */
};

/* Bytes of the scratch of each direction. */
size_t group_forward_size(const struct group_sizes *sizes);
size_t group_backward_size(const struct group_sizes *sizes);

/* Writes out (num_queries, value_dim). */
void group_forward(const struct group_attention *attention, struct view out, void *scratch);

void group_backward(const struct group_attention *attention, struct view out, struct view dout,
                    const struct attention_gradients *gradients, void *scratch);

/* ---- the groups alone, for rows that others hold --------------------------------------------------------
   What happens in the groups, and what happens to rows (group_attention_rows.h), may have memory of their
   own, each with its own sizes: a place may be computed here and merged elsewhere. Not for sights by token,
   nor `large`. */

/* Computes the parts of all places. */
void group_places_forward(const struct group_attention *attention, void *scratch);

/* Computes the gradients of all places, given delta. */
void group_places_backward(const struct group_attention *attention, struct view dout, void *scratch);

#endif
