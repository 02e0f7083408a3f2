/* Attention utility (Sun, Yang and Yoo 2022, eq. 5): the share of a head's full attention held by the pairs
   that a membership lets meet, next to the share that as many pairs could hold. With A the softmax of all
   scores of a query over the keys that it may see (causal: up to its own position; the paper has no mask):
   utility = mean_i sum_{j met by i} A_ij; a key found in two groups counts once;
     pairs = the pairs met over all visible pairs: the expected utility of a random choice;
     bound = mean_i sum of the c largest A_ij, c the least number that gives at least as many pairs as are
   met:
             the paper's empirical upper bound, every query with its own best keys. It is no theorem: a
             membership that gives some queries many more keys than others may exceed it.
   Cost: 2 n_q n_k d operations and as many exponentials, and the selection of topk.h in every row for each
   membership; tiles of queries, so memory is linear in n.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_ATTENTION_CAUGHT_H
#define PARTS_ATTENTION_CAUGHT_H

#include "parts/groups/group_lists.h"
#include "parts/problem/problem.h"

/* A membership, and its results. */
struct caught {
    struct members queries, keys;
    enum group_sight sight;
    struct capacity window;
    double utility, bound, pairs; /* written */
};

struct catching {
    size_t num_caught;
    struct caught *caught;
    size_t places; /* maximum places of queries in the lists of a membership */
};

/* Bytes of the scratch; they depend on the two numbers above, not on lists. */
size_t attention_caught_size(const struct problem_shape *shape, const struct catching *catching);
/* Queries and keys of the problem are the rows that attend. */
void attention_caught(const struct problem *problem, const struct catching *catching, void *scratch);

#endif
