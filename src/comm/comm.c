/* Everything is one pattern: post all messages, then poll until they have arrived, so every wait has a time
   limit. A poll that finds nothing yields at first and sleeps later, because ranks may share a processor.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

hashattn_status comm_new(struct host *host, const hashattn_communicator *given, struct comm *comm)
{
    FAIL_IF(given->size < 1 || given->rank < 0 || given->rank >= given->size, host, HASHATTN_INVALID,
            "communicator: rank is %d and size %d, allowed are sizes from 1 and ranks below the size",
            given->rank, given->size);
    FAIL_IF(!(given->timeout >= 0) || isinf(given->timeout), host, HASHATTN_INVALID,
            "communicator: timeout is %g seconds, at least 0 is needed (0: no limit)", given->timeout);
    FAIL_IF(given->size > 1 && (given->begin == NULL || given->test == NULL || given->end == NULL), host,
            HASHATTN_INVALID, "communicator: %s is NULL",
            given->begin == NULL  ? "begin"
            : given->test == NULL ? "test"
                                  : "end");
    *comm = (struct comm){.peer = *given};
    void *block;
    TRY(memory_new(host, 2 * (size_t)given->size, sizeof *comm->messages, "messages to other ranks", &block));
    comm->messages = block;
    hashattn_status status = memory_new(host, (size_t)given->size, 1, "a byte of each rank", &block);
    comm->bytes = block;
    if (status != HASHATTN_OK)
        comm_free(host, comm);
    return status;
}

void comm_free(struct host *host, struct comm *comm)
{
    memory_free(host, comm->bytes);
    memory_free(host, comm->messages);
    comm->bytes = NULL;
    comm->messages = NULL;
}

/* It sends nothing, so it needs no functions. */
struct comm comm_self(void)
{
    return (struct comm){.peer = {.struct_size = sizeof(hashattn_communicator), .rank = 0, .size = 1}};
}

struct comm comm_part(struct comm *whole, int first, int stride, int size)
{
    if (comm_size(whole) == 1)
        return comm_self();
    struct comm part = *whole;
    part.whole = whole;
    part.first = first;
    part.stride = stride;
    part.peer.size = size;
    part.peer.rank = (whole->peer.rank - first) / stride;
    return part;
}

/* ---- spans --------------------------------------------------------------------------------------------- */

void comm_span_of(int rank, int size, size_t count, size_t *first, size_t *end)
{
    size_t each = count / (size_t)size, more = count % (size_t)size, r = (size_t)rank;
    *first = r * each + size_min(r, more);
    *end = (r + 1) * each + size_min(r + 1, more);
}

void comm_span(const struct comm *comm, size_t count, size_t *first, size_t *end)
{
    comm_span_of(comm_rank(comm), comm_size(comm), count, first, end);
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* If a rank hangs, all that wait for it reach the limit at the same time. Higher ranks wait a little longer,
   so that the first one to abort is usually the only one that prints. */
static double patience(const struct comm *comm)
{
    return comm->peer.timeout + 2 * (double)size_min((size_t)comm->peer.rank, 5);
}

static void pause_between_tests(double waited)
{
    enum { YIELD_UP_TO = 1000, LEAST = 20000, MOST = 1000000 }; /* microseconds; nanoseconds */
    if (waited < YIELD_UP_TO * 1e-6) {
        sched_yield();
        return;
    }
    double sleep = waited * 1e9 / 64; /* the wait gets 1/64 longer */
    nanosleep(&(struct timespec){.tv_nsec = sleep < LEAST ? LEAST : sleep > MOST ? MOST : (long)sleep}, NULL);
}

static hashattn_status give_up(struct host *host, struct comm *comm, int awaited, double waited)
{
    char sentence[200], whom[40] = "another rank";
    if (awaited >= 0)
        snprintf(whom, sizeof whom, "rank %d", awaited);
    snprintf(sentence, sizeof sentence,
             "%s has not answered rank %d for %.0f s (the limit is --comm-timeout)", whom,
             comm_world_rank(comm, comm->peer.rank), waited);
    comm_abort(comm, sentence);
    return host_fail(host, HASHATTN_FAILED, "%s", sentence);
}

hashattn_status comm_begin(struct host *host, struct comm *comm, const hashattn_message *sends,
                           size_t num_sends, const hashattn_message *receives, size_t num_receives,
                           struct transfer *transfer)
{
    transfer->exchange = NULL;
    if (num_sends == 0 && num_receives == 0)
        return HASHATTN_OK;
    comm->agreed = false;
    const hashattn_communicator *peer = &comm->peer;
    transfer->exchange = peer->begin(peer->user, sends, num_sends, receives, num_receives);
    FAIL_IF(transfer->exchange == NULL, host, HASHATTN_FAILED,
            "rank %d cannot send: the communicator has failed", comm_world_rank(comm, peer->rank));
    for (size_t i = 0; i < num_sends; i++)
        *(comm->whole == NULL ? &comm->bytes_sent : &comm->whole->bytes_sent) += sends[i].size;
    return HASHATTN_OK;
}

/* *awaited: a rank whose message is missing, or -1. */
static hashattn_status poll_once(struct host *host, struct comm *comm, struct transfer *transfer,
                                 int *awaited)
{
    *awaited = -1;
    if (transfer->exchange == NULL)
        return HASHATTN_OK;
    const hashattn_communicator *peer = &comm->peer;
    int done = peer->test(peer->user, transfer->exchange, awaited);
    if (done != 0)
        transfer->exchange = NULL;
    FAIL_IF(done < 0 && *awaited < 0, host, HASHATTN_FAILED,
            "rank %d cannot reach the others: the communicator has failed",
            comm_world_rank(comm, peer->rank));
    FAIL_IF(done < 0, host, HASHATTN_FAILED, "rank %d cannot reach rank %d: the communicator has failed",
            comm_world_rank(comm, peer->rank), *awaited);
    return HASHATTN_OK;
}

hashattn_status comm_poll(struct host *host, struct comm *comm, struct transfer *transfer, bool *ended)
{
    int awaited;
    hashattn_status status = poll_once(host, comm, transfer, &awaited);
    *ended = transfer->exchange == NULL;
    return status;
}

hashattn_status comm_end(struct host *host, struct comm *comm, struct transfer *transfer)
{
    double begun = clock_seconds();
    for (;;) {
        int awaited;
        TRY(poll_once(host, comm, transfer, &awaited));
        if (transfer->exchange == NULL)
            return HASHATTN_OK;
        double waited = clock_seconds() - begun;
        if (comm->peer.timeout > 0 && waited > patience(comm))
            return give_up(host, comm, awaited, waited);
        pause_between_tests(waited);
    }
}

hashattn_status comm_exchange(struct host *host, struct comm *comm, const hashattn_message *sends,
                              size_t num_sends, const hashattn_message *receives, size_t num_receives)
{
    struct transfer transfer;
    TRY(comm_begin(host, comm, sends, num_sends, receives, num_receives, &transfer));
    return comm_end(host, comm, &transfer);
}

void comm_abort(struct comm *comm, const char *sentence)
{
    if (comm_size(comm) > 1)
        comm->peer.end(comm->peer.user, sentence);
}

/* Up to one message to each rank and one from each. */
struct messages {
    hashattn_message *sends, *receives;
    size_t num_sends, num_receives;
};

static struct messages messages_of(const struct comm *comm)
{
    return (struct messages){.sends = comm->messages, .receives = comm->messages + comm->peer.size};
}

static hashattn_message message_of(const struct comm *comm, int rank, const void *bytes, size_t size)
{
    return (hashattn_message){comm_world_rank(comm, rank), (void *)(uintptr_t)bytes,
                              size}; /* sends are only read */
}

static void message_add(const struct comm *comm, hashattn_message *list, size_t *count, int rank,
                        const void *bytes, size_t size)
{
    if (size > 0)
        list[(*count)++] = message_of(comm, rank, bytes, size);
}

static hashattn_status messages_run(struct host *host, struct comm *comm, const struct messages *messages)
{
    return comm_exchange(host, comm, messages->sends, messages->num_sends, messages->receives,
                         messages->num_receives);
}

/* ---- collectives --------------------------------------------------------------------------------------- */

/* The bytes of the span of a rank. */
static size_t span_bytes(const struct comm *comm, int rank, size_t bytes, size_t size, size_t *first)
{
    size_t end, count = bytes / size + (bytes % size > 0);
    comm_span_of(rank, comm->peer.size, count, first, &end);
    *first = size_min(*first * size, bytes);
    return size_min(end * size, bytes) - *first;
}

hashattn_status comm_gather(struct host *host, struct comm *comm, void *items, size_t bytes, size_t size)
{
    if (comm_size(comm) == 1 || bytes == 0)
        return HASHATTN_OK;
    struct messages messages = messages_of(comm);
    size_t mine, own = span_bytes(comm, comm->peer.rank, bytes, size, &mine);
    /* Each rank begins with its neighbour, so that not all send to rank 0 at first. */
    for (int i = 1; i < comm->peer.size; i++) {
        int other = (comm->peer.rank + i) % comm->peer.size;
        size_t at, theirs = span_bytes(comm, other, bytes, size, &at);
        message_add(comm, messages.sends, &messages.num_sends, other, (char *)items + mine, own);
        message_add(comm, messages.receives, &messages.num_receives, other, (char *)items + at, theirs);
    }
    return messages_run(host, comm, &messages);
}

hashattn_status comm_broadcast(struct host *host, struct comm *comm, void *bytes, size_t size)
{
    if (comm_size(comm) == 1 || size == 0)
        return HASHATTN_OK;
    struct messages messages = messages_of(comm);
    for (int rank = 1; rank < comm->peer.size && comm->peer.rank == 0; rank++)
        message_add(comm, messages.sends, &messages.num_sends, rank, bytes, size);
    if (comm->peer.rank != 0)
        message_add(comm, messages.receives, &messages.num_receives, 0, bytes, size);
    return messages_run(host, comm, &messages);
}

/* Every rank gets the byte of every rank, in comm->bytes. */
static hashattn_status gather_bytes(struct host *host, struct comm *comm, unsigned char own)
{
    comm->bytes[comm->peer.rank] = own;
    return comm_gather(host, comm, comm->bytes, (size_t)comm->peer.size, 1);
}

hashattn_status comm_any(struct host *host, struct comm *comm, bool *wish)
{
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    TRY(gather_bytes(host, comm, *wish));
    for (int rank = 0; rank < comm->peer.size; rank++)
        *wish = *wish || comm->bytes[rank] != 0;
    return HASHATTN_OK;
}

hashattn_status comm_agree(struct host *host, struct comm *comm, hashattn_status status)
{
    if (comm_size(comm) == 1)
        return status;
    int failed = 0;
    char message[sizeof host->message];
    memcpy(message, host->message, sizeof message); /* a failure here would replace it */
    TRY(gather_bytes(host, comm, (unsigned char)status));
    while (failed < comm->peer.size && comm->bytes[failed] == HASHATTN_OK)
        failed++;
    if (failed == comm->peer.size)
        return HASHATTN_OK;
    hashattn_status first = (hashattn_status)comm->bytes[failed];
    struct messages messages = messages_of(comm);
    for (int rank = 0; rank < comm->peer.size && comm->peer.rank == failed; rank++)
        if (rank != failed)
            message_add(comm, messages.sends, &messages.num_sends, rank, message, sizeof message);
    if (comm->peer.rank != failed)
        message_add(comm, messages.receives, &messages.num_receives, failed, message, sizeof message);
    TRY(messages_run(host, comm, &messages));
    comm->agreed = true;
    message[sizeof message - 1] = '\0';
    if (strncmp(message, "rank ", 5) == 0) /* a part of the ranks has agreed before */
        return host_fail(host, first, "%s", message);
    return host_fail(host, first, "rank %d: %s", comm_world_rank(comm, failed), message);
}

/* Returns the length of the line at text + *at, and moves *at to the line. Both texts have the same bytes
   before `differs`. */
static int line_at(const char *text, size_t differs, const char **line)
{
    size_t first = differs;
    while (first > 0 && text[first - 1] != '\n')
        first--;
    while (text[first] == ' ')
        first++;
    *line = text + first;
    return (int)size_min(strcspn(text + first, "\n"), 120);
}

hashattn_status comm_same(struct host *host, struct comm *comm, const char *text)
{
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    uint64_t size = strlen(text) + 1;
    void *block = NULL; /* stays if another rank has no memory for it */
    TRY(comm_broadcast(host, comm, &size, sizeof size));
    hashattn_status status =
        comm_agree(host, comm, memory_new(host, size, 1, "the options of rank 0", &block));
    char *first = block;
    if (status == HASHATTN_OK && comm->peer.rank == 0)
        memcpy(first, text, size);
    if (status == HASHATTN_OK)
        status = comm_broadcast(host, comm, first, size);
    if (status == HASHATTN_OK) {
        first[size - 1] = '\0';
        size_t differs = 0;
        while (first[differs] != '\0' && first[differs] == text[differs])
            differs++;
        const char *own_line, *first_line;
        int own_size = line_at(text, differs, &own_line), first_size = line_at(first, differs, &first_line);
        if (first[differs] != text[differs])
            status = host_fail(host, HASHATTN_INVALID, "it differs from rank 0: '%.*s' here, '%.*s' there",
                               own_size, own_line, first_size, first_line);
        status = comm_agree(host, comm, status);
    }
    memory_free(host, block);
    return status;
}

hashattn_status comm_scan(struct host *host, struct comm *comm, float *x, float *sums, size_t n,
                          bool backward)
{
    int rank = comm_rank(comm), size = comm_size(comm), step = backward ? -1 : 1;
    int first = backward ? size - 1 : 0, last = size - 1 - first;
    size_t bytes = n * sizeof *x;
    if (n == 0)
        return HASHATTN_OK;
    if (rank == first)
        memset(sums, 0, bytes);
    if (size == 1)
        return HASHATTN_OK;
    if (rank != first) {
        const hashattn_message before = message_of(comm, rank - step, sums, bytes);
        TRY(comm_exchange(host, comm, NULL, 0, &before, 1));
    }
    for (size_t i = 0; i < n; i++)
        x[i] = sums[i] + x[i];
    if (rank == last)
        return HASHATTN_OK;
    const hashattn_message after = message_of(comm, rank + step, x, bytes);
    return comm_exchange(host, comm, &after, 1, NULL, 0);
}

hashattn_status comm_ring(struct host *host, struct comm *comm, const void *out, void *in, size_t size)
{
    int rank = comm_rank(comm), ranks = comm_size(comm);
    if (size == 0)
        return HASHATTN_OK;
    if (ranks == 1) {
        memcpy(in, out, size);
        return HASHATTN_OK;
    }
    const hashattn_message send = message_of(comm, (rank + 1) % ranks, out, size);
    const hashattn_message receive = message_of(comm, (rank + ranks - 1) % ranks, in, size);
    return comm_exchange(host, comm, &send, 1, &receive, 1);
}
