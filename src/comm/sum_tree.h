/* The fixed tree in which arrays are added, one array per leaf. A node of `count` leaves adds the first 2^k
   of them, 2^k the largest power of two below count, to the rest. Only the number of leaves determines the
   tree, so a sum has the same bits whichever rank holds which leaves and adds which nodes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_SUM_TREE_H
#define COMM_SUM_TREE_H

#include <stdbool.h>
#include <stddef.h>

struct pool; /* base/pool.h */

/* The sum of leaves first .. first + count - 1. */
struct tree_node {
    size_t first, count;
};

/* A range of leaves has at most this many maximal nodes, and a stack at most this many entries. */
enum { TREE_NODES = 128 };

/* The largest nodes inside leaves [first, end), from left to right; returns their number. */
size_t tree_nodes(size_t leaves, size_t first, size_t end, struct tree_node nodes[TREE_NODES]);

/* Nodes from left to right, to which leaves or nodes are appended at the right. */
struct tree_stack {
    size_t leaves; /* of the whole tree */
    size_t depth;
    struct tree_node nodes[TREE_NODES];
};
/* Appends a node. The caller then calls tree_join until it returns false; each time it adds array number
   depth (after the call) to array number depth - 1. */
void tree_push(struct tree_stack *stack, struct tree_node node);
bool tree_join(struct tree_stack *stack);
/* The most arrays that are in use at once when leaves [first, end) are appended one by one. */
size_t tree_most_nodes(size_t leaves, size_t first, size_t end);

/* What a node keeps of each float. TREE_BF16: its nearest bfloat16, in leaves too, so that sums that are sent
   in 16 bits have the same bits as sums that are not sent. */
enum tree_precision { TREE_F32, TREE_BF16 };

/* Rounds the n floats of a leaf, on all threads. */
void tree_round(struct pool *pool, float *x, size_t n, enum tree_precision precision);
/* into[i] += from[i] for n floats, rounded, on all threads. */
void tree_add(struct pool *pool, float *into, const float *from, size_t n, enum tree_precision precision);

#endif
