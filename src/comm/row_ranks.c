/* Collectives of comm.h whose first failure is remembered.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/row_ranks.h"

#include <string.h>

size_t row_ranks_rows(const struct row_ranks *ranks, int rank, size_t total)
{
    size_t first, end;
    comm_span_of(rank, comm_size(ranks->comm), total, &first, &end);
    return end - first;
}

size_t row_ranks_sum_scratch(size_t ranks, size_t n)
{
    const struct comm first = {.peer = {.size = (int)ranks}}; /* its piece is the longest */
    return comm_sum_scratch(&first, ranks, n);
}

void row_ranks_sum(struct row_ranks *ranks, struct pool *pool, float *x, size_t n, void *scratch)
{
    if (ranks->status == HASHATTN_OK)
        ranks->status = comm_sum(ranks->host, ranks->comm, pool, row_ranks_count(ranks), &x, x, n, scratch);
    if (ranks->status != HASHATTN_OK && n > 0)
        memset(x, 0, n * sizeof *x);
}

void row_ranks_scan(struct row_ranks *ranks, float *x, float *sums, size_t n, bool backward)
{
    if (ranks->status == HASHATTN_OK)
        ranks->status = comm_scan(ranks->host, ranks->comm, x, sums, n, backward);
    if (ranks->status != HASHATTN_OK && n > 0)
        memset(sums, 0, n * sizeof *sums);
}

void row_ranks_ring(struct row_ranks *ranks, const void *out, void *in, size_t size)
{
    if (ranks->status == HASHATTN_OK)
        ranks->status = comm_ring(ranks->host, ranks->comm, out, in, size);
    if (ranks->status != HASHATTN_OK && size > 0)
        memset(in, 0, size);
}

void row_ranks_shift(struct row_ranks *ranks, const void *out, void *in, size_t size, bool backward)
{
    struct comm *comm = ranks->comm;
    int rank = comm_rank(comm), last = comm_size(comm) - 1, step = backward ? -1 : 1;
    bool sends = size > 0 && rank != (backward ? 0 : last),
         receives = size > 0 && rank != (backward ? last : 0);
    const hashattn_message to = {comm_world_rank(comm, rank + step), (void *)(uintptr_t)out, size};
    const hashattn_message from = {comm_world_rank(comm, rank - step), in, size};
    if (ranks->status == HASHATTN_OK)
        ranks->status = comm_exchange(ranks->host, comm, &to, sends, &from, receives);
    if (size > 0 && (ranks->status != HASHATTN_OK || !receives))
        memset(in, 0, size);
}

void row_ranks_from_first(struct row_ranks *ranks, void *bytes, size_t size)
{
    if (ranks->status == HASHATTN_OK)
        ranks->status = comm_broadcast(ranks->host, ranks->comm, bytes, size);
    if (ranks->status != HASHATTN_OK)
        memset(bytes, 0, size);
}

void row_ranks_gather(struct row_ranks *ranks, void *items, size_t bytes, size_t size)
{
    if (ranks->status == HASHATTN_OK)
        ranks->status = comm_gather(ranks->host, ranks->comm, items, bytes, size);
    if (ranks->status != HASHATTN_OK)
        memset(items, 0, bytes);
}

/* The communicator has memory for one message to each rank and one from each. */
static hashattn_status exchange(const struct row_ranks *ranks, const struct row_piece *out,
                                const struct row_piece *in)
{
    struct comm *comm = ranks->comm;
    int size = comm_size(comm), rank = comm_rank(comm);
    hashattn_message *sends = comm->messages, *receives = comm->messages + size;
    size_t num_sends = 0, num_receives = 0;
    for (int i = 1; i < size; i++) {
        int other = (rank + i) % size, world = comm_world_rank(comm, other);
        if (out[other].size > 0)
            sends[num_sends++] = (hashattn_message){world, out[other].bytes, out[other].size};
        if (in[other].size > 0)
            receives[num_receives++] = (hashattn_message){world, in[other].bytes, in[other].size};
    }
    return comm_exchange(ranks->host, comm, sends, num_sends, receives, num_receives);
}

void row_ranks_exchange(struct row_ranks *ranks, const struct row_piece *out, const struct row_piece *in)
{
    int size = comm_size(ranks->comm), rank = comm_rank(ranks->comm);
    if (in[rank].bytes != out[rank].bytes && in[rank].size > 0)
        memcpy(in[rank].bytes, out[rank].bytes, in[rank].size);
    if (ranks->status == HASHATTN_OK && size > 1)
        ranks->status = exchange(ranks, out, in);
    for (int i = 0; i < size && ranks->status != HASHATTN_OK; i++)
        if (in[i].size > 0)
            memset(in[i].bytes, 0, in[i].size);
}

void row_ranks_largest(struct row_ranks *ranks, float *x, size_t n, float *scratch)
{
    size_t size = row_ranks_count(ranks);
    memcpy(scratch + (size_t)comm_rank(ranks->comm) * n, x, n * sizeof *x);
    row_ranks_gather(ranks, scratch, size * n * sizeof *x, n * sizeof *x);
    memcpy(x, scratch, n * sizeof *x);
    for (size_t i = n; i < size * n; i++)
        x[i % n] = scratch[i] > x[i % n] ? scratch[i] : x[i % n];
}

hashattn_status rank_grid_open(struct host *host, struct comm *comm, int64_t sequence_parallel,
                               struct rank_grid *grid)
{
    int size = comm_size(comm), rank = comm_rank(comm);
    FAIL_IF(size % sequence_parallel != 0, host, HASHATTN_INVALID,
            "`sequence_parallel` is %lld and the number of ranks %d; it must be a multiple, as with mpirun "
            "-n %lld",
            (long long)sequence_parallel, size, (long long)sequence_parallel);
    int row = (int)sequence_parallel;
    grid->data = comm_part(comm, rank % row, row, size / row);
    grid->row = comm_part(comm, rank - rank % row, 1, row);
    grid->ranks = (struct row_ranks){.host = host, .comm = &grid->row};
    return HASHATTN_OK;
}
