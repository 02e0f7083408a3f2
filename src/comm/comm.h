/* Ranks and what they do together. Every function with a `host` is collective: all ranks call it, in the same
   order. With one rank nothing is sent. A struct comm * that is NULL means one rank too.
   A wait for a rank that does not answer ends after the communicator's timeout: its `end` is called with a
   sentence that names the rank. A failure of one rank becomes the failure of all by comm_agree. So no rank
   waits for another that has given up.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"
#include "hashattn/communicator.h"

struct comm {
    hashattn_communicator peer; /* size 1: its functions are not used */
    uint64_t bytes_sent;        /* by this rank so far, with those of parts */
    bool agreed;                /* the last failure is that of all ranks (comm_agree) */
    /* Allocated in advance, so that ranks can still agree when memory has run out. */
    hashattn_message *messages; /* (2 size) up to one to each rank and one from each */
    unsigned char *bytes;       /* (size) */
    struct comm *whole;         /* of comm_part; NULL: this is all ranks */
    int first, stride;          /* of comm_part: rank i of the part is rank first + i stride of the whole */
};

/* One process. */
struct comm comm_self(void);
/* INVALID: rank, size, timeout or functions. */
hashattn_status comm_new(struct host *host, const hashattn_communicator *given, struct comm *comm);
void comm_free(struct host *host, struct comm *comm);

/* Ranks first, first + stride, ... of `whole`, `size` of them, one of which is this rank; they are numbered
   from 0. whole: not a part itself; NULL for one process. The part borrows the memory of `whole`, which must
   outlive it, so no other part may be in use at the same time. Messages of failures name ranks by their
   number in `whole`. Not to be freed. */
struct comm comm_part(struct comm *whole, int first, int stride, int size);

/* true if the caller has given a communicator, even of one rank. */
static inline bool comm_is_given(const struct comm *comm)
{
    return comm != NULL && comm->peer.begin != NULL;
}
static inline int comm_rank(const struct comm *comm)
{
    return comm == NULL ? 0 : comm->peer.rank;
}
static inline int comm_size(const struct comm *comm)
{
    return comm == NULL ? 1 : comm->peer.size;
}

/* The number of a rank among all ranks. */
static inline int comm_world_rank(const struct comm *comm, int rank)
{
    return comm == NULL || comm->whole == NULL ? rank : comm->first + rank * comm->stride;
}

/* The items [*first, *end) of `count` that belong to a rank: contiguous, in the order of the ranks, and as
   many for each as for any other, or one more. */
void comm_span_of(int rank, int size, size_t count, size_t *first, size_t *end);
void comm_span(const struct comm *comm, size_t count, size_t *first, size_t *end);

/* ---- all ranks together ---- */

/* An exchange that has begun and not ended. Exchanges end in the order in which they began, and all ranks
   begin them in the same order. All must end, unless one fails. */
struct transfer {
    void *exchange; /* of the communicator; NULL: nothing is under way */
};
/* Starts to send and receive, and does not wait. The lists are read before it returns; the bytes stay until
   the end. FAILED if the communicator fails. */
hashattn_status comm_begin(struct host *host, struct comm *comm, const hashattn_message *sends,
                           size_t num_sends, const hashattn_message *receives, size_t num_receives,
                           struct transfer *transfer);
/* Moves messages without waiting; *ended: all have arrived, and comm_end returns at once. Not collective.
   FAILED as in comm_end. */
hashattn_status comm_poll(struct host *host, struct comm *comm, struct transfer *transfer, bool *ended);
/* Waits. FAILED if the communicator fails, or after an abort that returned. */
hashattn_status comm_end(struct host *host, struct comm *comm, struct transfer *transfer);
/* Both at once. */
hashattn_status comm_exchange(struct host *host, struct comm *comm, const hashattn_message *sends,
                              size_t num_sends, const hashattn_message *receives, size_t num_receives);
/* items: `bytes` bytes in items of `size`; the last one may be shorter. Each rank has filled its span;
   afterwards every rank has all. */
hashattn_status comm_gather(struct host *host, struct comm *comm, void *items, size_t bytes, size_t size);
/* Copies rank 0's bytes to all ranks. */
hashattn_status comm_broadcast(struct host *host, struct comm *comm, void *bytes, size_t size);
/* true if `wish` is true on any rank. */
hashattn_status comm_any(struct host *host, struct comm *comm, bool *wish);
/* Returns OK if `status` is OK on every rank. Otherwise all ranks fail with the status and message of the
   first that failed, as "rank 2: ..." (a message that begins with "rank" stays); comm->agreed is then set. */
hashattn_status comm_agree(struct host *host, struct comm *comm, hashattn_status status);
/* text: lines. INVALID, with both lines, if a rank's text is not that of rank 0. */
hashattn_status comm_same(struct host *host, struct comm *comm, const char *text);
/* Exclusive scan: sums (n) = (x0 + x1) + ... of the ranks before this one, 0 on the first; backward: of those
   after it, from the last one on, 0 on the last. x: (n) of this rank, becomes the sum with its own. */
hashattn_status comm_scan(struct host *host, struct comm *comm, float *x, float *sums, size_t n,
                          bool backward);
/* Sends `size` bytes to the next rank and receives as many from the one before; the ends are neighbours. */
hashattn_status comm_ring(struct host *host, struct comm *comm, const void *out, void *in, size_t size);
/* Ends all ranks with this sentence; one process just returns. */
void comm_abort(struct comm *comm, const char *sentence);

#endif
