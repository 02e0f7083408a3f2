/* The lists of the groups, and which keys of its group a query meets. group_attention.h has the formula.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUP_LISTS_H
#define PARTS_GROUP_LISTS_H

#include "parts/groups/members.h"
#include "parts/tiles/softmax_rows.h"

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
static inline bool sight_sees(enum group_sight sight, uint32_t query, uint32_t key)
{
    return sight == SIGHT_OTHERS ? key != query : key < query;
}

/* The keys first .. end - 1 of its group's list that the query at `place` of its own list, `queries`, meets;
   the group has `keys` keys. With a sight by token, only some of them. */
struct seen {
    size_t first, end;
};
static inline struct seen group_seen(enum group_sight sight, const struct capacity *window,
                                     const uint32_t *queries, size_t place, size_t keys)
{
    if (sight == SIGHT_ALL || sight_is_by_token(sight))
        return (struct seen){0, keys};
    size_t end = place + 1,
           most = sight == SIGHT_PAST ? end : capacity_of(window, (size_t)queries[place] + 1);
    return (struct seen){end > most ? end - most : 0, end};
}

/* The memory depends on these and the shape of the problem. */
struct group_sizes {
    size_t query_places, key_places; /* in all groups */
    size_t longest_key;              /* places in one group */
    bool norm;                       /* queries and keys are normed by plain_norm.h */
};

/* A pair has a draw of the problem's dropout in each group that it shares, by its places in the lists. */
struct group_lists {
    struct group_sizes sizes;
    enum group_sight sight;
    struct capacity window; /* for SIGHT_WINDOW */
    size_t first_list;      /* number of the first group, which is not 0 if ranks share the groups */
    struct members queries, keys;
    /* The row of each place, if the views do not have a row per token (group_places_forward): then also of
       `rows`, dout and delta. NULL: the token. */
    const uint32_t *query_rows, *key_rows;
    struct softmax_rows rows; /* (n_q), for queries that meet a key: forward writes, backward reads */
};

#endif
