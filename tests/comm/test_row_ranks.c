/* Ranks that share sequences: rings, sums and copies among parts of all ranks, the grid, and what happens
   after a failure. Bugs planted and caught: a part that takes its own numbers for those of all ranks, in
   messages and in sums; bytes of a part that are not counted for the whole; a failure that is forgotten;
   bytes of a failed ring left as they were; a trade: what a rank has for itself not copied, the pieces of the
   ranks in the order of the messages; the largest of the own row only.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/row_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/thread_ranks.h"

enum { N = 37 };

/* Rows of `*argument` ranks. Every rank holds its number. */
static void work_in_rows(struct comm *comm, void *argument)
{
    int shared = *(int *)argument, rank = comm_rank(comm), row = rank / shared;
    struct host host;
    struct rank_grid grid;
    float x[N], before[N];
    host_init(&host);
    rank_require(rank_grid_open(&host, comm, shared, &grid) == HASHATTN_OK);
    rank_require(comm_size(&grid.row) == shared && comm_rank(&grid.row) == rank % shared);
    rank_require(comm_size(&grid.data) == comm_size(comm) / shared && comm_rank(&grid.data) == row);
    rank_require(row_ranks_count(&grid.ranks) == (size_t)shared);
    rank_require(row_ranks_first(&grid.ranks) == (rank % shared == 0));
    struct row_ranks *ranks = &grid.ranks;
    void *room = malloc(row_ranks_sum_scratch((size_t)shared, N) + 1);
    for (int i = 0; i < N; i++)
        x[i] = (float)(rank + i);
    row_ranks_sum(ranks, NULL, x, N, room);
    for (int i = 0; i < N; i++) /* row * shared + 0 .. shared - 1 */
        rank_require(x[i] == (float)(shared * (row * shared + i) + shared * (shared - 1) / 2));
    for (int i = 0; i < N; i++)
        x[i] = (float)rank;
    row_ranks_ring(ranks, x, before, sizeof x);
    rank_require(before[N - 1] == (float)(row * shared + (rank % shared + shared - 1) % shared));
    rank_require(row_ranks_owner(ranks, 1) == (rank % shared + shared - 1) % shared);
    float own[N], others[N];
    memcpy(own, x, sizeof own);
    row_ranks_scan(ranks, own, others, N, false);
    int earlier = rank % shared;
    rank_require(others[0] == (float)(earlier * row * shared + earlier * (earlier - 1) / 2));
    row_ranks_shift(ranks, x, before, sizeof x, false);
    rank_require(before[0] == (rank % shared == 0 ? 0 : (float)(rank - 1)));
    row_ranks_shift(ranks, x, before, sizeof x, true);
    rank_require(before[N - 1] == (rank % shared == shared - 1 ? 0 : (float)(rank + 1)));
    row_ranks_from_first(ranks, x, sizeof x);
    rank_require(x[0] == (float)(row * shared));
    float column = (float)rank, *nodes[] = {&column};
    void *column_room = malloc(comm_sum_scratch(&grid.data, (size_t)comm_size(&grid.data), 1) + 1);
    rank_require(comm_sum(&host, &grid.data, NULL, (size_t)comm_size(&grid.data), nodes, &column, 1,
                          column_room) == HASHATTN_OK);
    int size = comm_size(&grid.data);
    rank_require(column == (float)(size * (rank % shared) + shared * size * (size - 1) / 2));
    rank_require(ranks->status == HASHATTN_OK && grid.row.bytes_sent + grid.data.bytes_sent == 0);
    rank_require((comm->bytes_sent > 0) == (comm_size(comm) > 1));
    free(room), free(column_room);
}

/* Rank r of a row sends r + 2 s bytes to rank s, each with both numbers. */
static void trade_in_rows(struct comm *comm, void *argument)
{
    int shared = *(int *)argument, row = comm_rank(comm) / shared, r = comm_rank(comm) % shared;
    struct host host;
    struct rank_grid grid;
    unsigned char sent[MOST_RANKS][3 * MOST_RANKS], come[MOST_RANKS][3 * MOST_RANKS];
    struct row_piece out[MOST_RANKS], in[MOST_RANKS];
    float largest[] = {(float)r, (float)-comm_rank(comm)}, room[2 * MOST_RANKS];
    uint32_t items[2 * MOST_RANKS + 1];
    host_init(&host);
    rank_require(rank_grid_open(&host, comm, shared, &grid) == HASHATTN_OK);
    for (int s = 0; s < shared; s++) {
        memset(sent[s], 16 * r + s, sizeof sent[s]);
        memset(come[s], 0xff, sizeof come[s]);
        out[s] = (struct row_piece){sent[s], (size_t)(r + 2 * s)};
        in[s] = (struct row_piece){come[s], (size_t)(s + 2 * r)};
    }
    row_ranks_exchange(&grid.ranks, out, in);
    for (int s = 0; s < shared; s++)
        for (int i = 0; i < s + 2 * r + 1; i++)
            rank_require(come[s][i] == (i < s + 2 * r ? 16 * s + r : 0xff));
    row_ranks_largest(&grid.ranks, largest, 2, room);
    rank_require(largest[0] == (float)(shared - 1) && largest[1] == (float)(-row * shared));
    size_t count = 2 * (size_t)shared + 1, first, end;
    comm_span(&grid.row, count, &first, &end);
    for (size_t i = 0; i < count; i++)
        items[i] = i >= first && i < end ? (uint32_t)(10 * i + 1) : 0;
    row_ranks_gather(&grid.ranks, items, count * sizeof *items, sizeof *items);
    for (size_t i = 0; i < count; i++)
        rank_require(items[i] == 10 * i + 1);
    rank_require(grid.ranks.status == HASHATTN_OK);
}

static void ranks_of_a_row_trade(void **state)
{
    (void)state;
    static const int sizes[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {3, 3}, {6, 3}, {8, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int shared = sizes[i][1];
        assert_string_equal(run_ranks(sizes[i][0], 60, trade_in_rows, &shared), "");
    }
}

static void a_grid_has_rows_and_columns(void **state)
{
    (void)state;
    static const int sizes[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {3, 3}, {6, 2}, {6, 3}, {8, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int shared = sizes[i][1];
        assert_string_equal(run_ranks(sizes[i][0], 60, work_in_rows, &shared), "");
    }
}

static void refuse_a_remainder(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    struct rank_grid grid;
    host_init(&host);
    rank_require(rank_grid_open(&host, comm, 2, &grid) == HASHATTN_INVALID);
    rank_require(strstr(host.message, "sequence_parallel is 2 and the number of ranks 3") != NULL);
    rank_require(rank_grid_open(&host, NULL, 2, &grid) == HASHATTN_INVALID);
    rank_require(strstr(host.message, "the number of ranks 1; it must be a multiple, as with mpirun -n 2") !=
                 NULL);
    rank_require(rank_grid_open(&host, NULL, 1, &grid) == HASHATTN_OK && row_ranks_count(&grid.ranks) == 1);
}

static void ranks_are_a_multiple(void **state)
{
    (void)state;
    assert_string_equal(run_ranks(3, 60, refuse_a_remainder, NULL), "");
}

/* Rank 1 of the second row says nothing: the others of its row give up, with zeros, and send nothing more. */
static void wait_for_a_silent_rank(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    struct rank_grid grid;
    float x[N], in[N];
    host_init(&host);
    rank_require(rank_grid_open(&host, comm, 2, &grid) == HASHATTN_OK);
    if (comm_rank(comm) == 3)
        return;
    void *room = malloc(row_ranks_sum_scratch(2, N) + 1);
    memset(x, 1, sizeof x);
    memset(in, 1, sizeof in);
    if (comm_rank(comm) == 2)
        row_ranks_ring(&grid.ranks, x, in, sizeof x);
    if (comm_rank(comm) == 2) {
        uint64_t sent = comm->bytes_sent;
        rank_require(grid.ranks.status == HASHATTN_FAILED && in[0] == 0 && in[N - 1] == 0);
        rank_require(strstr(host.message, "rank 3 has not answered rank 2") != NULL);
        row_ranks_sum(&grid.ranks, NULL, x, N, room);
        memset(in, 1, sizeof in);
        row_ranks_from_first(&grid.ranks, in, sizeof in);
        row_ranks_shift(&grid.ranks, in, x, sizeof in, true);
        rank_require(x[0] == 0 && x[N - 1] == 0 && in[0] == 0 && comm->bytes_sent == sent);
        const struct row_piece out[] = {{x, 4}, {x, 4}}, gets[] = {{in, 4}, {in + 1, 4}};
        in[1] = 1;
        row_ranks_exchange(&grid.ranks, out, gets);
        rank_require(in[1] == 0 && comm->bytes_sent == sent);
    }
    free(room);
}

static void a_failure_is_kept(void **state)
{
    (void)state;
    const char *sentence = run_ranks(4, 0.2, wait_for_a_silent_rank, NULL);
    assert_non_null(strstr(sentence, "rank 3 has not answered rank 2"));
}

/* A row agrees first, then all ranks: the message names the rank once, by its number among all. */
static void agree_twice(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    struct rank_grid grid;
    host_init(&host);
    rank_require(rank_grid_open(&host, comm, 2, &grid) == HASHATTN_OK);
    hashattn_status status =
        comm_rank(comm) == 3 ? host_fail(&host, HASHATTN_NO_MEMORY, "no memory for a row") : HASHATTN_OK;
    status = comm_agree(&host, &grid.row, status);
    rank_require((status == HASHATTN_NO_MEMORY) == (comm_rank(comm) >= 2));
    rank_require(comm_agree(&host, comm, status) == HASHATTN_NO_MEMORY);
    rank_require(strcmp(host.message, "rank 3: no memory for a row") == 0);
}

static void a_row_agrees_first(void **state)
{
    (void)state;
    assert_string_equal(run_ranks(4, 60, agree_twice, NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_has_rows_and_columns), cmocka_unit_test(ranks_of_a_row_trade),
        cmocka_unit_test(ranks_are_a_multiple),        cmocka_unit_test(a_failure_is_kept),
        cmocka_unit_test(a_row_agrees_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
