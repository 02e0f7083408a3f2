/* Stop texts are found in bytes, before these become characters.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/text_stream.h"

#include <string.h>

#include "base/memory.h"
#include "text/characters.h"

void text_stream_free(struct host *host, struct text_stream *stream)
{
    memory_free(host, stream->waiting.bytes);
    memory_free(host, stream->ready.bytes);
    *stream = (struct text_stream){.stops = NULL};
}

void text_stream_clear(struct text_stream *stream)
{
    stream->waiting.size = stream->ready.size = 0;
    stream->stopped = false;
}

/* The bytes before the first stop text, or before what may be the beginning of one. */
static size_t free_bytes(const struct text_stream *stream, bool last, bool *stopped)
{
    const struct grown_text *text = &stream->waiting;
    *stopped = false;
    for (size_t at = 0; at < text->size; at++)
        for (size_t i = 0; i < stream->num_stops; i++) {
            struct piece stop = stream->stops[i];
            size_t left = text->size - at, size = size_min(left, stop.size);
            if ((last && left < stop.size) || memcmp(text->bytes + at, stop.bytes, size) != 0)
                continue;
            /* A longer one that began here may still come, but this text ends here either way. */
            for (size_t k = 0; k < stream->num_stops; k++)
                *stopped |= stream->stops[k].size <= left &&
                            memcmp(text->bytes + at, stream->stops[k].bytes, stream->stops[k].size) == 0;
            return at;
        }
    return text->size;
}

static hashattn_status add(struct host *host, struct grown_text *text, const char *bytes, size_t size)
{
    TRY(memory_grow(host, &text->bytes, &text->capacity, text->size, size, 1, "text"));
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return HASHATTN_OK;
}

hashattn_status text_stream_go(struct host *host, struct text_stream *stream, bool last)
{
    struct grown_text *waiting = &stream->waiting, *ready = &stream->ready;
    bool stopped;
    size_t count = free_bytes(stream, last, &stopped);
    const char *at = waiting->bytes, *end = at + count;
    ready->size = 0;
    while (at < end) {
        int32_t point;
        size_t size = character_read(at, end, &point);
        /* Bytes after the free ones may complete a character, unless the text ends here. */
        if (point == CHARACTER_NONE && !last && !stopped && character_is_cut(at, end))
            break;
        if (point != CHARACTER_NONE)
            TRY(add(host, ready, at, size));
        else
            TRY(add(host, ready, "\xef\xbf\xbd", 3));
        at += point != CHARACTER_NONE ? size : character_broken(at, end);
    }
    size_t done = (size_t)(at - waiting->bytes);
    if (waiting->size > done)
        memmove(waiting->bytes, at, waiting->size - done);
    waiting->size = stopped ? 0 : waiting->size - done;
    stream->stopped |= stopped;
    TRY(add(host, ready, "", 1));
    ready->size--; /* a NUL that it does not count */
    return HASHATTN_OK;
}
