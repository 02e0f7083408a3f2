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

#include "parts/groups/group_lists.h"
#include "parts/problem/problem.h"

/* Bytes of the scratch of each direction. */
size_t group_forward_size(const struct problem_shape *shape, const struct group_sizes *sizes);
size_t group_backward_size(const struct problem_shape *shape, const struct group_sizes *sizes);

/* Writes out (n_q, d_v). */
void group_forward(const struct problem *problem, const struct group_lists *lists, struct view out,
                   void *scratch);

/* Adds to the gradients of query, key and value; if rows are normed, of the normed queries and keys. */
void group_backward(const struct problem *problem, const struct group_lists *lists, struct view out,
                    struct view dout, const struct problem_gradients *gradients, void *scratch);

/* ---- the groups alone, for rows that others hold --------------------------------------------------------
   What happens in the groups, and what happens to rows (group_attention_rows.h), may have memory of their
   own, each with its own problem and sizes: a place may be computed here and merged elsewhere. Not for sights
   by token, nor for a problem that is `large`. */

/* Computes the parts of all places. */
void group_places_forward(const struct problem *problem, const struct group_lists *lists, void *scratch);

/* Computes the gradients of all places, given delta. */
void group_places_backward(const struct problem *problem, const struct group_lists *lists, struct view dout,
                           void *scratch);

#endif
