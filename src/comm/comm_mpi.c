/* Messages by MPI, as a library of its own (hashattn/mpi.h). Only point-to-point messages are used, because
   the order of a collective sum is MPI's choice, and because a wait for one of them can name the rank that is
   missing. A message of more than PART bytes is sent in parts, because MPI counts with int.
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/mpi.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1, PART = 1 << 30, TIMEOUT = 600 /* seconds */ };
/* Bytes of a communicator in the first version, whose last field was `end`. */
#define FIRST_SIZE (offsetof(hashattn_communicator, end) + sizeof(((hashattn_communicator *)NULL)->end))

struct link {
    MPI_Comm comm;
    bool initialised; /* MPI, by hashattn_mpi_open */
};

/* An exchange under way: receives come first. */
struct exchange {
    size_t count;
    MPI_Request *requests; /* (count); MPI_REQUEST_NULL once complete */
    int *finished;         /* (count) scratch of MPI_Testsome */
    MPI_Status *statuses;  /* (count) the same: gcc warns of MPICH's MPI_STATUSES_IGNORE */
    int *ranks;            /* (count) */
};

static size_t parts_of(const hashattn_message *messages, size_t count)
{
    size_t parts = 0;
    for (size_t i = 0; i < count; i++)
        parts += messages[i].size / PART + (messages[i].size % PART > 0);
    return parts;
}

static void exchange_free(struct exchange *exchange)
{
    if (exchange == NULL)
        return;
    free(exchange->requests);
    free(exchange->finished);
    free(exchange->statuses);
    free(exchange->ranks);
    free(exchange);
}

static struct exchange *exchange_new(size_t count)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return NULL;
    exchange->requests = calloc(count, sizeof *exchange->requests);
    exchange->finished = calloc(count, sizeof *exchange->finished);
    exchange->statuses = calloc(count, sizeof *exchange->statuses);
    exchange->ranks = calloc(count, sizeof *exchange->ranks);
    if (exchange->requests != NULL && exchange->finished != NULL && exchange->statuses != NULL &&
        exchange->ranks != NULL)
        return exchange;
    exchange_free(exchange);
    return NULL;
}

/* Posts one message; false if MPI refuses it. */
static bool post(const struct link *link, struct exchange *exchange, const hashattn_message *message,
                 bool receives)
{
    for (size_t at = 0; at < message->size; at += PART) {
        size_t left = message->size - at;
        int bytes = left < PART ? (int)left : PART;
        char *from = (char *)message->bytes + at;
        MPI_Request *request = &exchange->requests[exchange->count];
        int code = receives ? MPI_Irecv(from, bytes, MPI_BYTE, message->rank, TAG, link->comm, request)
                            : MPI_Isend(from, bytes, MPI_BYTE, message->rank, TAG, link->comm, request);
        if (code != MPI_SUCCESS)
            return false;
        exchange->ranks[exchange->count++] = message->rank;
    }
    return true;
}

static void *begin(void *user, const hashattn_message *sends, size_t num_sends,
                   const hashattn_message *receives, size_t num_receives)
{
    const struct link *link = user;
    struct exchange *exchange = exchange_new(parts_of(sends, num_sends) + parts_of(receives, num_receives));
    bool good = exchange != NULL;
    for (size_t i = 0; i < num_receives && good; i++)
        good = post(link, exchange, &receives[i], true);
    for (size_t i = 0; i < num_sends && good; i++)
        good = post(link, exchange, &sends[i], false);
    return good ? exchange : NULL; /* what was posted keeps its memory: the caller gives up */
}

static int test(void *user, void *started, int *rank)
{
    (void)user;
    struct exchange *exchange = started;
    int found = 0;
    int code = MPI_Testsome((int)exchange->count, exchange->requests, &found, exchange->finished,
                            exchange->statuses);
    *rank = -1;
    for (size_t i = 0; i < exchange->count && *rank < 0; i++)
        if (exchange->requests[i] != MPI_REQUEST_NULL)
            *rank = exchange->ranks[i];
    if (code != MPI_SUCCESS)
        return -1;
    if (*rank >= 0)
        return 0;
    exchange_free(exchange);
    return 1;
}

static void end_all(void *user, const char *sentence)
{
    const struct link *link = user;
    fprintf(stderr, "hashattn: %s\n", sentence);
    fflush(stderr);
    MPI_Abort(link->comm, 1);
}

static hashattn_status fail(char *message, size_t size, hashattn_status status, const char *text)
{
    if (message != NULL && size > 0)
        snprintf(message, size, "%s", text);
    return status;
}

/* Makes the duplicate, and fills *own. */
static bool connect(struct link *link, MPI_Comm parent, hashattn_communicator *own)
{
    *own = (hashattn_communicator){
        .timeout = TIMEOUT, .user = link, .begin = begin, .test = test, .end = end_all};
    return MPI_Comm_dup(parent, &link->comm) == MPI_SUCCESS &&
           MPI_Comm_set_errhandler(link->comm, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
           MPI_Comm_rank(link->comm, &own->rank) == MPI_SUCCESS &&
           MPI_Comm_size(link->comm, &own->size) == MPI_SUCCESS;
}

hashattn_status hashattn_mpi_open(const void *mpi, hashattn_communicator *communicator, char *message,
                                  size_t message_size)
{
    int running = 0, level;
    if (communicator == NULL || communicator->struct_size < FIRST_SIZE)
        return fail(message, message_size, HASHATTN_INVALID,
                    "communicator is NULL, or its struct_size is not set");
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return fail(message, message_size, HASHATTN_NO_MEMORY, "out of memory: a communicator of MPI");
    MPI_Initialized(&running);
    if (!running && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        free(link);
        return fail(message, message_size, HASHATTN_FAILED, "MPI cannot be initialised");
    }
    link->initialised = !running;
    hashattn_communicator own;
    if (!connect(link, mpi == NULL ? MPI_COMM_WORLD : *(const MPI_Comm *)mpi, &own)) {
        free(link);
        return fail(message, message_size, HASHATTN_FAILED, "MPI cannot duplicate its communicator");
    }
    own.struct_size = communicator->struct_size;
    memcpy(communicator, &own, own.struct_size < sizeof own ? own.struct_size : sizeof own);
    return HASHATTN_OK;
}

void hashattn_mpi_close(hashattn_communicator *communicator)
{
    if (communicator == NULL || communicator->user == NULL)
        return;
    struct link *link = communicator->user;
    MPI_Comm_free(&link->comm);
    if (link->initialised)
        MPI_Finalize();
    free(link);
    communicator->user = NULL;
}
