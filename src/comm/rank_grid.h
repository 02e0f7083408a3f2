/* Ranks as a grid: each row of it, `sequence_parallel` neighbouring ranks, shares sequences, and the rows
   share batches. Rank g R + r of D R ranks holds span r of the sequences of row g.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_RANK_GRID_H
#define COMM_RANK_GRID_H

#include "comm/row_ranks.h"

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
