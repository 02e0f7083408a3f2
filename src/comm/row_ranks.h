/* The ranks that hold the rows of one sequence together, each a contiguous span of them (comm_span_of). A
   pass of a model cannot fail, so the first failure is kept in `status`: after it nothing is sent, and zeros
   take the place of what would have arrived. Whoever runs a pass looks at the status after it. Every function
   is collective.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_ROW_RANKS_H
#define COMM_ROW_RANKS_H

#include "comm/comm_sum.h"

struct row_ranks {
    struct host *host;
    struct comm *comm;
    hashattn_status status;
};

static inline size_t row_ranks_count(const struct row_ranks *ranks)
{
    return ranks == NULL ? 1 : (size_t)comm_size(ranks->comm);
}

/* true on one of the ranks: it computes what must be computed once, such as a loss of the whole sequence. */
static inline bool row_ranks_first(const struct row_ranks *ranks)
{
    return ranks == NULL || comm_rank(ranks->comm) == 0;
}

/* The rank whose rows are here after `steps` steps of a ring: those of this rank at first. */
static inline int row_ranks_owner(const struct row_ranks *ranks, size_t steps)
{
    int size = comm_size(ranks->comm);
    return (comm_rank(ranks->comm) + size - (int)(steps % (size_t)size)) % size;
}

/* The number of rows of `total` that a rank holds; and the most that any of `ranks` ranks holds. */
size_t row_ranks_rows(const struct row_ranks *ranks, int rank, size_t total);
static inline size_t row_ranks_most(size_t ranks, size_t total)
{
    return total / ranks + (total % ranks > 0);
}

/* x (n) becomes the sum over the ranks, added in a fixed tree (comm_sum.h). scratch: row_ranks_sum_scratch
   bytes for that number of ranks. */
size_t row_ranks_sum_scratch(size_t ranks, size_t n);
void row_ranks_sum(struct row_ranks *ranks, struct pool *pool, float *x, size_t n, void *scratch);
/* Exclusive scan (comm_scan): x and sums (n). */
void row_ranks_scan(struct row_ranks *ranks, float *x, float *sums, size_t n, bool backward);
/* One step of a ring (comm_ring): `size` bytes to the next rank, as many from the one before. */
void row_ranks_ring(struct row_ranks *ranks, const void *out, void *in, size_t size);
/* As a ring that is open: the first rank receives zeros. backward: bytes go to the rank before, and the last
   one receives zeros. */
void row_ranks_shift(struct row_ranks *ranks, const void *out, void *in, size_t size, bool backward);
/* items: `bytes` bytes in items of `size`, of which each rank has its span (comm_gather); afterwards all. */
void row_ranks_gather(struct row_ranks *ranks, void *items, size_t bytes, size_t size);
/* x (n) becomes the largest of each number over the ranks. scratch: (ranks, n). */
void row_ranks_largest(struct row_ranks *ranks, float *x, size_t n, float *scratch);

/* What one rank gets, or what comes from it. */
struct row_piece {
    void *bytes;
    size_t size;
};
/* Sends out[r] to rank r and receives in[r] from it, (ranks) each, which must agree on the sizes. What a rank
   has for itself is copied, unless out and in are the same. */
void row_ranks_exchange(struct row_ranks *ranks, const struct row_piece *out, const struct row_piece *in);

/* Copies the first rank's bytes to all. */
void row_ranks_from_first(struct row_ranks *ranks, void *bytes, size_t size);

/* Ranks as a grid: each row of it, `sequence_parallel` neighbouring ranks, shares sequences, and the rows
   share batches. Rank g R + r of D R ranks holds span r of the sequences of row g. */
struct rank_grid {
    struct comm data;       /* the D ranks with this rank's span, one of each row: they share batches */
    struct comm row;        /* the R ranks of this rank's row: they share sequences */
    struct row_ranks ranks; /* of `row` */
};

/* comm: all ranks, which the grid borrows; NULL: one process. The grid must stay where it is. INVALID: the
   number of ranks is not a multiple of sequence_parallel, which is at least 1. */
hashattn_status rank_grid_open(struct host *host, struct comm *comm, int64_t sequence_parallel,
                               struct rank_grid *grid);

#endif
