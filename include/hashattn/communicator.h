/* Ranks: processes that train or evaluate together, on one machine or several. The library sends and receives
   bytes through a communicator and knows nothing else about its peers, so MPI is needed only by the library
   libhashattn-mpi (hashattn/mpi.h), which makes communicators. A program may also fill one itself.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_COMMUNICATOR_H
#define HASHATTN_COMMUNICATOR_H

#include <stddef.h>

#include "hashattn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes for a rank, or from one. */
typedef struct hashattn_message {
    int rank;
    void *bytes;
    size_t size; /* at least 1 */
} hashattn_message;

/* The functions are called only on the thread that calls the library. Messages between two ranks arrive in
   the order in which they were sent, and every rank makes the same collective calls in the same order. */
typedef struct hashattn_communicator {
    size_t struct_size;
    int rank, size; /* 0 <= rank < size */
    /* A wait for another rank ends after this many seconds: `end` is called. 0: no limit. */
    double timeout;
    void *user; /* passed to the functions */
    /* Starts to send and receive. The lists are read before it returns; the bytes stay until `test` is done.
       Several exchanges can be under way; `test` is called for the first of them until it is done. Returns
       NULL if it cannot start. */
    void *(*begin)(void *user, const hashattn_message *sends, size_t num_sends,
                   const hashattn_message *receives, size_t num_receives);
    /* Returns 1 if everything has arrived, and frees what `begin` returned; 0 if not yet; -1 after a failure.
     *rank: a rank that is waited for, or that failed; -1 if unknown. Does not block. */
    int (*test)(void *user, void *exchange, int *rank);
    /* Prints the sentence and ends all ranks. If it returns, the call that waits fails. Exchanges under way
       may then never be tested again, and their bytes are the caller's: the communicator frees what `begin`
       made for them, and must not write to the bytes. */
    void (*end)(void *user, const char *sentence);
} hashattn_communicator;

#ifdef __cplusplus
}
#endif
#endif
