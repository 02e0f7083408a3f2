/* The sum of one array per leaf of a tree (sum_tree.h), whose leaves are spread over the ranks in spans
   (comm_span). The bits depend on the number of leaves only.
   Each rank sums a span of the elements: it receives that span of every node, adds it in the tree, and
   sends the result to all. With R ranks whose spans are single nodes, each sends 2 (R - 1) / R arrays of n
   floats, the least that any all-reduce needs (Patarasuk and Yuan 2009), or of half as many bytes with
   TREE_BF16. A range of elements can be summed before others are known, and several ranges can be under way
   (sum_stream.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_COMM_SUM_H
#define COMM_COMM_SUM_H

#include "base/pool.h"
#include "comm/comm.h"
#include "comm/sum_tree.h"

/* What is added. */
struct comm_sum {
    struct comm *comm; /* more than one rank */
    struct pool *pool;
    size_t leaves;
    enum tree_precision precision; /* of the nodes, which are rounded to it */
    float *const *nodes;           /* arrays of tree_nodes of this rank's span of the leaves; overwritten */
    float *sum;                    /* the same on all ranks; it may be nodes[0] */
};
/* Elements [first, first + n) on their way, in `scratch`: sum_range_scratch bytes, for itself alone until the
   end. */
struct sum_range {
    size_t first, n;
    void *scratch;
    struct transfer transfer;
};

size_t sum_range_scratch(const struct comm_sum *sum, size_t n);
/* Bytes that this rank sends for a range of n elements. */
uint64_t sum_range_bytes(const struct comm_sum *sum, size_t n);
/* A range takes these three steps. Begin sends this rank's nodes and does not wait. Turn waits for those of
   others, adds them, and begins to send the sums. End waits for the sums of others. range->transfer is that
   of the step before, for polls. */
hashattn_status sum_range_begin(struct host *host, const struct comm_sum *sum, struct sum_range *range);
hashattn_status sum_range_reduce(struct host *host, const struct comm_sum *sum, struct sum_range *range);
hashattn_status sum_range_end(struct host *host, const struct comm_sum *sum, struct sum_range *range);

/* The same for whole arrays of n float32, on any number of ranks. scratch: comm_sum_scratch bytes. */
hashattn_status comm_sum(struct host *host, struct comm *comm, struct pool *pool, size_t leaves,
                         float *const *nodes, float *sum, size_t n, void *scratch);
size_t comm_sum_scratch(const struct comm *comm, size_t leaves, size_t n);
uint64_t comm_sum_bytes(const struct comm *comm, size_t leaves, size_t n);

#endif
