/* What ranks do together, on 1 to 8 threads with a communicator of their own.
   Bugs planted and caught: a share that leaves out the remainder; a gather whose last item is a whole one; a
   failure that only the failing rank returns; another rank's message than that of the first that failed; a
   scan that includes the rank itself; a backward scan of the ranks before; a scan that adds a rank twice; a
   ring that turns the other way; a wait without a limit; a limit that names the waiting rank; a poll that
   waits; a poll that never says that an exchange has ended; an exchange that ends before its messages have
   arrived; memory that a rank keeps when another has none.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/thread_ranks.h"

static const int sizes[] = {1, 2, 3, 4, 8};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

static void on_every_size(rank_body *body)
{
    for (int i = 0; i < NUM_SIZES; i++)
        assert_string_equal(run_ranks(sizes[i], 60, body, NULL), "");
}

static void shares_cover_everything_once(void **state)
{
    (void)state;
    for (int size = 1; size <= 9; size++)
        for (size_t count = 0; count < 30; count++) {
            size_t at = 0;
            for (int rank = 0; rank < size; rank++) {
                size_t first, end;
                comm_span_of(rank, size, count, &first, &end);
                assert_true(first == at && end >= first && end - first <= count / (size_t)size + 1);
                at = end;
            }
            assert_true(at == count);
        }
}

static void gather(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    for (size_t bytes = 0; bytes < 50; bytes += 7) {
        unsigned char items[50];
        size_t first, end, count = (bytes + 3) / 4;
        memset(items, 0xe0 + comm_rank(comm), sizeof items);
        comm_span(comm, count, &first, &end);
        for (size_t i = 4 * first; i < 4 * end && i < bytes; i++)
            items[i] = (unsigned char)(i + 1);
        rank_require(comm_gather(&host, comm, items, bytes, 4) == HASHATTN_OK);
        for (size_t i = 0; i < sizeof items; i++)
            rank_require(items[i] == (i < bytes ? i + 1 : 0xe0 + (size_t)comm_rank(comm)));
    }
}

static void a_gather_gives_every_rank_everything(void **state)
{
    (void)state;
    on_every_size(gather);
}

static void broadcast(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    double values[3] = {comm_rank(comm), 1.5, comm_rank(comm)};
    rank_require(comm_broadcast(&host, comm, values, 2 * sizeof *values) == HASHATTN_OK);
    rank_require(values[0] == 0 && values[1] == 1.5 && values[2] == comm_rank(comm));
    bool wish = comm_rank(comm) == comm_size(comm) - 1, none = false;
    rank_require(comm_any(&host, comm, &wish) == HASHATTN_OK && wish);
    rank_require(comm_any(&host, comm, &none) == HASHATTN_OK && !none);
}

static void a_broadcast_copies_and_one_wish_counts(void **state)
{
    (void)state;
    on_every_size(broadcast);
}

/* Ranks 1 and 2 fail, if they exist. */
static void agree(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    int rank = comm_rank(comm), size = comm_size(comm);
    rank_require(comm_agree(&host, comm, HASHATTN_OK) == HASHATTN_OK && !comm->agreed);
    hashattn_status own = HASHATTN_OK;
    if (rank == 1)
        own = host_fail(&host, HASHATTN_NO_MEMORY, "out of memory: 5 bytes");
    if (rank == 2)
        own = host_fail(&host, HASHATTN_BAD_FILE, "a bad file");
    hashattn_status all = comm_agree(&host, comm, own);
    rank_require(all == (size == 1 ? HASHATTN_OK : HASHATTN_NO_MEMORY));
    rank_require(size == 1 || strcmp(host.message, "rank 1: out of memory: 5 bytes") == 0);
    rank_require(comm->agreed == (size > 1));
}

static void the_first_failure_is_that_of_all(void **state)
{
    (void)state;
    on_every_size(agree);
}

static void same(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    int rank = comm_rank(comm), size = comm_size(comm);
    rank_require(comm_same(&host, comm, "isa: avx2\nsteps: 100\n") == HASHATTN_OK);
    /* Another line, a longer text, a shorter text. */
    static const char *const others[] = {"isa: avx2\n  steps: 200\nend\n",
                                         "isa: avx2\n  steps: 100\nend\nmore\n", "isa: avx2\n  steps: 100\n"};
    static const char *const messages[] = {"it differs from rank 0: 'steps: 200' here, 'steps: 100' there",
                                           "it differs from rank 0: 'more' here, '' there",
                                           "it differs from rank 0: '' here, 'end' there"};
    for (int i = 0; i < 3; i++) {
        char want[200];
        bool other = rank == size - 1 && size > 1;
        hashattn_status status = comm_same(&host, comm, other ? others[i] : "isa: avx2\n  steps: 100\nend\n");
        snprintf(want, sizeof want, "rank %d: %s", size - 1, messages[i]);
        rank_require(status == (size == 1 ? HASHATTN_OK : HASHATTN_INVALID));
        rank_require(size == 1 || strcmp(host.message, want) == 0);
    }
}

static void a_difference_is_refused_with_both_lines(void **state)
{
    (void)state;
    on_every_size(same);
}

/* Counts its blocks; `poor` has no memory. */
struct counted {
    size_t blocks;
    bool poor;
};

static void *count_block(void *user, size_t alignment, size_t bytes)
{
    struct counted *counted = user;
    if (counted->poor)
        return NULL;
    counted->blocks++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void count_release(void *user, void *block)
{
    struct counted *counted = user;
    counted->blocks -= block != NULL;
    free(block);
}

static void poor(struct comm *comm, void *argument)
{
    (void)argument;
    int rank = comm_rank(comm), size = comm_size(comm);
    struct counted counted = {.poor = rank == size - 1};
    struct host host;
    host_init(&host);
    host.allocate = count_block;
    host.release = count_release;
    host.user = &counted;
    hashattn_status status = comm_same(&host, comm, "steps: 100\n");
    rank_require(status == (size == 1 ? HASHATTN_OK : HASHATTN_NO_MEMORY));
    rank_require(counted.blocks == 0);
}

static void a_rank_without_memory_ends_all_and_none_keeps_any(void **state)
{
    (void)state;
    on_every_size(poor);
}

static void scan(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    enum { N = 5 };
    float x[N], sums[N], want[N] = {0};
    int rank = comm_rank(comm);
    for (int r = 0; r <= rank; r++)
        for (int i = 0; i < N; i++) {
            if (r > 0)
                want[i] += x[i]; /* of the rank before, from the left */
            x[i] = 1.0f / (float)(3 + r * N + i);
        }
    float own[N];
    memcpy(own, x, sizeof own);
    rank_require(comm_scan(&host, comm, x, sums, N, false) == HASHATTN_OK);
    rank_require(memcmp(sums, want, sizeof sums) == 0);
    for (int i = 0; i < N; i++)
        rank_require(x[i] == want[i] + own[i]);
    float after[N] = {0}, later[N];
    for (int r = comm_size(comm) - 1; r > rank; r--)
        for (int i = 0; i < N; i++)
            after[i] += 1.0f / (float)(3 + r * N + i);
    memcpy(x, own, sizeof own);
    rank_require(comm_scan(&host, comm, x, later, N, true) == HASHATTN_OK);
    rank_require(memcmp(later, after, sizeof later) == 0);
}

static void a_scan_adds_the_ranks_before_in_order(void **state)
{
    (void)state;
    on_every_size(scan);
}

static void ring(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    int rank = comm_rank(comm), size = comm_size(comm), out[2] = {rank, 7}, in[2];
    rank_require(comm_ring(&host, comm, out, in, sizeof out) == HASHATTN_OK);
    rank_require(in[0] == (rank + size - 1) % size && in[1] == 7);
}

static void a_ring_hands_rows_to_the_next_rank(void **state)
{
    (void)state;
    on_every_size(ring);
}

/* A ring of two exchanges at once. Rank 0 begins the first one only when the others have seen by polls that
   it has not ended. */
static void overlap(struct comm *comm, void *argument)
{
    int *polled = argument;
    struct host host;
    host_init(&host);
    int rank = comm_rank(comm), size = comm_size(comm);
    double out[2] = {rank, 0.5 + rank}, in[2] = {-1, -1};
    struct transfer transfers[2];
    bool ended;
    while (rank == 0 && __atomic_load_n(polled, __ATOMIC_ACQUIRE) < size - 1)
        ;
    for (int i = 0; i < 2; i++) {
        const hashattn_message to = {(rank + 1) % size, &out[i], sizeof *out};
        const hashattn_message from = {(rank + size - 1) % size, &in[i], sizeof *in};
        rank_require(comm_begin(&host, comm, &to, 1, &from, 1, &transfers[i]) == HASHATTN_OK);
        if (i == 0 && rank == 1) /* the one that rank 0 sends to */
            rank_require(comm_poll(&host, comm, &transfers[0], &ended) == HASHATTN_OK && !ended);
        if (i == 0 && rank > 0)
            __atomic_add_fetch(polled, 1, __ATOMIC_ACQ_REL);
    }
    do
        rank_require(comm_poll(&host, comm, &transfers[0], &ended) == HASHATTN_OK);
    while (!ended);
    rank_require(comm_end(&host, comm, &transfers[0]) == HASHATTN_OK);
    rank_require(comm_end(&host, comm, &transfers[1]) == HASHATTN_OK);
    int before = (rank + size - 1) % size;
    rank_require(in[0] == before && in[1] == 0.5 + before);
    rank_require(comm_begin(&host, comm, NULL, 0, NULL, 0, &transfers[0]) == HASHATTN_OK);
    rank_require(comm_poll(&host, comm, &transfers[0], &ended) == HASHATTN_OK && ended);
}

static void exchanges_are_under_way_together(void **state)
{
    (void)state;
    for (int i = 1; i < NUM_SIZES; i++) {
        int polled = 0;
        assert_string_equal(run_ranks(sizes[i], 60, overlap, &polled), "");
    }
}

/* The last rank never answers. */
static void wait_for_the_last(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    bool wish = false;
    if (comm_rank(comm) == comm_size(comm) - 1)
        return;
    rank_require(comm_any(&host, comm, &wish) == HASHATTN_FAILED && !comm->agreed);
    rank_require(strstr(host.message, comm_rank(comm) == 0 ? "has not answered rank 0 for"
                                                           : "the communicator has failed") != NULL);
}

static void a_rank_that_hangs_is_named(void **state)
{
    (void)state;
    assert_non_null(strstr(run_ranks(3, 2, wait_for_the_last, NULL), "rank 2 has not answered rank 0 for"));
}

static void count_bytes(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    host_init(&host);
    char items[30] = {0};
    uint64_t others = (uint64_t)comm_size(comm) - 1;
    size_t first, end;
    comm_span(comm, 10, &first, &end);
    rank_require(comm_gather(&host, comm, items, 30, 3) == HASHATTN_OK);
    rank_require(comm->bytes_sent == others * 3 * (end - first));
}

static void bytes_are_counted(void **state)
{
    (void)state;
    on_every_size(count_bytes);
}

static void one_process_needs_no_communicator(void **state)
{
    (void)state;
    struct comm self = comm_self();
    assert_true(comm_rank(&self) == 0 && comm_size(&self) == 1 && self.bytes_sent == 0);
    gather(NULL, NULL);
    broadcast(NULL, NULL);
    scan(NULL, NULL);
    ring(NULL, NULL);
    gather(&self, NULL);
    agree(&self, NULL);
    comm_abort(&self, "nobody hears it");
}

static void bad_communicators_are_refused(void **state)
{
    (void)state;
    struct host host;
    struct comm comm;
    host_init(&host);
    hashattn_communicator peer = {.struct_size = sizeof peer, .rank = 2, .size = 2};
    check_status(&host, comm_new(&host, &peer, &comm), HASHATTN_INVALID, "rank is 2 and size 2");
    peer = (hashattn_communicator){.size = 0};
    check_status(&host, comm_new(&host, &peer, &comm), HASHATTN_INVALID, "size 0");
    peer = (hashattn_communicator){.size = 1, .timeout = NAN};
    check_status(&host, comm_new(&host, &peer, &comm), HASHATTN_INVALID, "timeout is nan");
    peer = (hashattn_communicator){.size = 2};
    check_status(&host, comm_new(&host, &peer, &comm), HASHATTN_INVALID, "begin is NULL");
    peer = (hashattn_communicator){.size = 1};
    check_status(&host, comm_new(&host, &peer, &comm), HASHATTN_OK, NULL);
    comm_free(&host, &comm);
    for (long n = 0; n < 2; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        check_status(&failing.host, comm_new(&failing.host, &peer, &comm), HASHATTN_NO_MEMORY, "rank");
        assert_int_equal(failing.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_cover_everything_once),
        cmocka_unit_test(a_gather_gives_every_rank_everything),
        cmocka_unit_test(a_broadcast_copies_and_one_wish_counts),
        cmocka_unit_test(the_first_failure_is_that_of_all),
        cmocka_unit_test(a_difference_is_refused_with_both_lines),
        cmocka_unit_test(a_rank_without_memory_ends_all_and_none_keeps_any),
        cmocka_unit_test(a_scan_adds_the_ranks_before_in_order),
        cmocka_unit_test(a_ring_hands_rows_to_the_next_rank),
        cmocka_unit_test(exchanges_are_under_way_together),
        cmocka_unit_test(a_rank_that_hangs_is_named),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(one_process_needs_no_communicator),
        cmocka_unit_test(bad_communicators_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
