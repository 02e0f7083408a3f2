/* See the header.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/rank_grid.h"

hashattn_status rank_grid_open(struct host *host, struct comm *comm, int64_t sequence_parallel,
                               struct rank_grid *grid)
{
    int size = comm_size(comm), rank = comm_rank(comm);
    FAIL_IF(
        size % sequence_parallel != 0, host, HASHATTN_INVALID,
        "sequence_parallel is %lld and the number of ranks %d; it must be a multiple, as with mpirun -n %lld",
        (long long)sequence_parallel, size, (long long)sequence_parallel);
    int row = (int)sequence_parallel;
    grid->data = comm_part(comm, rank % row, row, size / row);
    grid->row = comm_part(comm, rank - rank % row, 1, row);
    grid->ranks = (struct row_ranks){.host = host, .comm = &grid->row};
    return HASHATTN_OK;
}
