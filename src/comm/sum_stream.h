/* A sum over ranks (comm_sum.h) whose elements become known from the last to the first, as those of a
   gradient do in a backward pass: it goes on its way in ranges while the rest is computed. The ranges are the
   same on all ranks, and so is the order of their steps: range k begins, range k - 2 is reduced, range k - 4
   ends. So a rank waits in it only if the network is two ranges behind. The bits are those of comm_sum,
   because elements do not depend on each other. Messages move only in calls of MPI, hence the polls. After a
   failure nothing is sent.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_SUM_STREAM_H
#define COMM_SUM_STREAM_H

#include "comm/comm_sum.h"

/* Ranges are 1/SUM_RANGES of all elements, but not shorter than SUM_LEAST floats (256 KiB), below which
   latency counts more than the bytes. */
enum { SUM_RANGES = 32, SUM_LEAST = 65536 };

struct sum_stream {
    struct host *host;
    const struct comm_sum *sum;
    hashattn_status status;
    struct sum_range ranges[SUM_RANGES];
    size_t count, begun, reduced, ended;
    struct sum_range *order[2 * SUM_RANGES]; /* exchanges in the order in which they began */
    size_t listed, finished,
        arrived; /* of `order`: all; those that steps have waited for; known to be over */
};

/* Bytes of `scratch` for a sum of n elements. */
size_t sum_stream_scratch(const struct comm_sum *sum, size_t n);
/* sum: stays valid until the end. */
void sum_stream_open(struct host *host, const struct comm_sum *sum, size_t n, void *scratch,
                     struct sum_stream *stream);
/* The next range that sum_stream_begin takes, at elements [*first, *first + *n); false: all have begun. */
bool sum_stream_next(const struct sum_stream *stream, size_t *first, size_t *n);
/* The elements of the next range are known. */
void sum_stream_begin(struct sum_stream *stream);
/* Moves messages, without waiting. */
void sum_stream_poll(struct sum_stream *stream);
/* After all have begun: waits for the rest. */
hashattn_status sum_stream_end(struct sum_stream *stream);
/* Bytes that this rank sends for n elements. */
uint64_t sum_stream_bytes(const struct comm_sum *sum, size_t n);

#endif
