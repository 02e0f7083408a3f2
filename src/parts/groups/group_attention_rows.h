/* The rows of attention in groups: merges the places of a query, which group_attention.c computed, into its
   row, and adds the gradients of places to their rows, in the order of the groups. The arrays of places come
   first in the scratch of group_attention.h, so rows may be merged in a scratch whose places another process
   computed. Cost: d_v operations per place of a query, forward; d per place of a query and d + d_v per place
   of a key, backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUP_ATTENTION_ROWS_H
#define PARTS_GROUP_ATTENTION_ROWS_H

#include "parts/groups/group_lists.h"
#include "parts/problem/problem.h"

enum { GROUP_AHEAD = 12 /* scattered rows are prefetched this many rows ahead */ };

/* ---- forward ------------------------------------------------------------------------------------------- */

/* (query_places, d_v), (query_places), (query_places) */
struct group_parts {
    float *result, *max, *sum;
};

/* The start of the scratch of forward. */
struct group_forward_places {
    struct group_parts parts;
    struct places queries;
};
struct group_forward_places group_forward_places_take(struct arena *arena, const struct problem_shape *shape,
                                                      const struct group_sizes *sizes);

/* The parts in the scratch of forward. */
struct group_parts group_parts(const struct problem_shape *shape, const struct group_sizes *sizes,
                               void *scratch);

/* Merges the parts of all places into rows of out, and sets lists->rows; max is overwritten. */
void group_rows_forward(const struct problem *problem, const struct group_lists *lists, struct view out,
                        void *scratch);

/* ---- backward ------------------------------------------------------------------------------------------ */

/* (query_places, d), (key_places, d), (key_places, d_v), (n_q) */
struct group_slopes {
    float *query, *key, *value, *delta;
};

/* The start of the scratch of backward. */
struct group_backward_places {
    struct group_slopes slopes;
    struct places queries, keys;
};
struct group_backward_places group_backward_places_take(struct arena *arena,
                                                        const struct problem_shape *shape,
                                                        const struct group_sizes *sizes);

/* The gradients of places, and delta, in the scratch of backward. */
struct group_slopes group_slopes(const struct problem_shape *shape, const struct group_sizes *sizes,
                                 void *scratch);

/* delta[i] = <dout_i, out_i>. */
void group_deltas(const struct problem *problem, struct view out, struct view dout, float *delta);

/* Adds the gradients of all places to rows. */
void group_rows_backward(const struct problem *problem, const struct group_lists *lists,
                         const struct problem_gradients *gradients, void *scratch);

#endif
