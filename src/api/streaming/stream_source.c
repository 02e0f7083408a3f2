/* Streams of a source of chunks. One of the threads fetches the next chunk and then helps with the current
   one, because a further thread would compete for a processor.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/streaming/streaming_parts.h"
#include "api/versions/versions.h"

/* Work done at the same time: `now` is computed, `before` is reported as done, `after` is fetched. */
struct chunks_in_flight {
    const hashattn_stream_source *source;
    hashattn_chunk before, now, after; /* no rows: none */
    size_t at_before, at_after;
    hashattn_status fetched;
};

static hashattn_status hand_over(struct chunks_in_flight *chunks)
{
    const hashattn_stream_source *source = chunks->source;
    if (chunks->before.rows > 0 && source->done != NULL)
        TRY(source->done(source->user, chunks->at_before, &chunks->before));
    memset(&chunks->after, 0, sizeof chunks->after);
    chunks->after.struct_size = sizeof chunks->after;
    return source->fetch(source->user, chunks->at_after, &chunks->after);
}

static void fetch(void *argument)
{
    struct chunks_in_flight *chunks = argument;
    chunks->fetched = hand_over(chunks);
}

/* A source that reads files of this context may have left the reason as the message. */
static hashattn_status fail_source(struct host *host, hashattn_status status, size_t row)
{
    char remark[80];
    if (host->message[0] == '\0')
        return host_fail(host, status, "the source failed at row %zu of the sequence", row);
    snprintf(remark, sizeof remark, " (the source failed at row %zu of the sequence)", row);
    host_suffix(host, remark);
    return status;
}

static hashattn_status run_chunks(hashattn_stream *stream, const hashattn_stream_source *source, int what,
                                  size_t *rows)
{
    struct host *host = &stream->context->host;
    hashattn_stream_source own = {.fetch = NULL};
    TRY(version_take(host, &own, sizeof own, source, first_sizes.stream_source, "source"));
    FAIL_IF(own.fetch == NULL, host, HASHATTN_INVALID, "source.fetch is NULL");
    size_t start = *streaming_position(stream, what), computing = start;
    struct pool *pool = stream->context->pool;
    struct chunks_in_flight chunks = {.source = &own, .at_after = start};
    do {
        pool_begin_aside(pool, fetch, &chunks);
        hashattn_status computed =
            chunks.now.rows == 0 ? HASHATTN_OK : streaming_run(stream, &chunks.now, what);
        pool_end_aside(pool);
        TRY(computed);
        if (chunks.fetched != HASHATTN_OK)
            return fail_source(host, chunks.fetched, chunks.at_after);
        chunks.at_before = computing;
        computing = chunks.at_after;
        chunks.before = chunks.now;
        chunks.now = chunks.after;
        chunks.at_after += chunks.after.rows;
    } while (chunks.now.rows > 0);
    if (chunks.before.rows > 0 && own.done != NULL) {
        hashattn_status status = own.done(own.user, chunks.at_before, &chunks.before);
        if (status != HASHATTN_OK)
            return fail_source(host, status, chunks.at_before);
    }
    if (rows != NULL)
        *rows = *streaming_position(stream, what) - start;
    return HASHATTN_OK;
}

/* Empties the message first, to see whether the source leaves one. */
static hashattn_status run_all(hashattn_stream *stream, const hashattn_stream_source *source, int what,
                               size_t *rows)
{
    FLOATING_DEFAULT;
    struct host *host = &stream->context->host;
    char before[sizeof host->message];
    strcpy(before, host->message);
    host->message[0] = '\0';
    hashattn_status status = run_chunks(stream, source, what, rows);
    if (status == HASHATTN_OK)
        strcpy(host->message, before);
    return status;
}

hashattn_status hashattn_stream_absorb_all(hashattn_stream *stream, const hashattn_stream_source *source,
                                           size_t *rows)
{
    if (stream == NULL)
        return HASHATTN_INVALID;
    TRY(streaming_refuse_causal(stream));
    return run_all(stream, source, STREAM_ABSORBS, rows);
}

hashattn_status hashattn_stream_read_all(hashattn_stream *stream, const hashattn_stream_source *source,
                                         size_t *rows)
{
    return stream == NULL ? HASHATTN_INVALID : run_all(stream, source, streaming_reads(stream), rows);
}
