/* Three steps for each range, AHEAD ranges apart.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/sum_stream.h"

#include <assert.h>

#include "base/memory.h"

enum { AHEAD = 2, LINE_FLOATS = 16 };

static size_t range_floats(size_t n)
{
    size_t each = n / SUM_RANGES + (n % SUM_RANGES > 0);
    each = (each + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    return size_max(each, SUM_LEAST);
}

/* Range number `index`, counted from the last elements on: returns its length, 0 after the first elements. */
static size_t cut(size_t n, size_t index, size_t *first)
{
    size_t each = range_floats(n), end = n - size_min(n, index * each);
    *first = end - size_min(end, each);
    return end - *first;
}

size_t sum_stream_scratch(const struct comm_sum *sum, size_t n)
{
    size_t bytes = 0, first;
    for (size_t i = 0, floats; (floats = cut(n, i, &first)) > 0; i++)
        bytes = size_sum(bytes, size_sum(sum_range_scratch(sum, floats), MEMORY_ALIGNMENT));
    return bytes;
}

uint64_t sum_stream_bytes(const struct comm_sum *sum, size_t n)
{
    uint64_t bytes = 0;
    size_t first;
    for (size_t i = 0, floats; (floats = cut(n, i, &first)) > 0; i++)
        bytes += sum_range_bytes(sum, floats);
    return bytes;
}

void sum_stream_open(struct host *host, const struct comm_sum *sum, size_t n, void *scratch,
                     struct sum_stream *stream)
{
    struct arena arena = arena_on(scratch);
    *stream = (struct sum_stream){.host = host, .sum = sum};
    size_t first;
    for (size_t floats; (floats = cut(n, stream->count, &first)) > 0; stream->count++) {
        void *own = arena_take(&arena, sum_range_scratch(sum, floats), 1);
        assert(stream->count < SUM_RANGES);
        stream->ranges[stream->count] = (struct sum_range){.first = first, .n = floats, .scratch = own};
    }
}

bool sum_stream_next(const struct sum_stream *stream, size_t *first, size_t *n)
{
    if (stream->begun == stream->count)
        return false;
    *first = stream->ranges[stream->begun].first;
    *n = stream->ranges[stream->begun].n;
    return true;
}

typedef hashattn_status range_step(struct host *host, const struct comm_sum *sum, struct sum_range *range);

/* A step of a range. Reduce and end finish the oldest exchange; begin and reduce start one. */
static void take(struct sum_stream *stream, range_step *step, size_t index)
{
    struct sum_range *range = &stream->ranges[index];
    if (step != sum_range_begin) {
        assert(stream->order[stream->finished] == range);
        stream->finished++;
    }
    if (stream->status == HASHATTN_OK)
        stream->status = step(stream->host, stream->sum, range);
    if (step != sum_range_end)
        stream->order[stream->listed++] = range;
}

static void reduce_next(struct sum_stream *stream)
{
    if (stream->reduced >= AHEAD)
        take(stream, sum_range_end, stream->ended++);
    take(stream, sum_range_reduce, stream->reduced++);
}

void sum_stream_begin(struct sum_stream *stream)
{
    if (stream->begun >= AHEAD)
        reduce_next(stream);
    take(stream, sum_range_begin, stream->begun++);
}

void sum_stream_poll(struct sum_stream *stream)
{
    bool ended = stream->status == HASHATTN_OK;
    stream->arrived = size_max(stream->arrived, stream->finished);
    while (ended && stream->arrived < stream->listed) {
        struct transfer *transfer = &stream->order[stream->arrived]->transfer;
        stream->status = comm_poll(stream->host, stream->sum->comm, transfer, &ended);
        ended = ended && stream->status == HASHATTN_OK;
        stream->arrived += ended;
    }
}

hashattn_status sum_stream_end(struct sum_stream *stream)
{
    while (stream->reduced < stream->count)
        reduce_next(stream);
    while (stream->ended < stream->count)
        take(stream, sum_range_end, stream->ended++);
    return stream->status;
}
