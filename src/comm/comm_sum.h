/* The sum of one array per leaf of a tree (sum_tree.h), whose leaves are spread over the ranks in shares
   (comm_share). The bits depend on the number of leaves only.
   Each rank sums a share of the elements: it receives that share of every node, adds it in the tree, and
   sends the result to all. With R ranks whose shares are single nodes, each sends 2 (R - 1) / R arrays of n
   floats, the least that any all-reduce needs (Patarasuk and Yuan 2009).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_COMM_SUM_H
#define COMM_COMM_SUM_H

#include "base/pool.h"
#include "comm/comm.h"
#include "comm/sum_tree.h"

/* Bytes of `room` for arrays of n floats. */
size_t comm_sum_room(const struct comm *comm, size_t leaves, size_t n);
/* nodes: the arrays (n) of tree_nodes of this rank's share of the leaves, which are overwritten. sum: (n),
   the same on all ranks; it may be nodes[0]. */
hashattn_status comm_sum(struct host *host, struct comm *comm, struct pool *pool, size_t leaves,
                         float *const *nodes, float *sum, size_t n, void *room);
/* Bytes that this rank sends in comm_sum. */
uint64_t comm_sum_bytes(const struct comm *comm, size_t leaves, size_t n);

#endif
