/* What the files of a public stream share: its struct, and the way of a chunk through it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_STREAMING_PARTS_H
#define API_STREAMING_PARTS_H

#include "attention/driver/stream.h"
#include "base/pool.h"
#include "hashattn/stream.h"

struct hashattn_stream {
    struct hashattn_context *context;
    hashattn_stream_options given;
    struct stream heads; /* described for the first head */
    void *options;       /* a copy of the mechanism's options */
    float *params;       /* a copy of its learned parameters, (heads, param_count); or NULL */
    size_t param_count;
    bool spread; /* one head at a time, on all threads */
    size_t state_bytes, scratch_bytes;
    size_t absorbed, answered;       /* rows so far; a causal stream counts only answered */
    unsigned char *states, *scratch; /* states: (heads); scratch: (heads that run in parallel) */
};

/* Heads that run in parallel, each with a scratch of its own. */
size_t streaming_heads_at_once(const struct hashattn_stream *stream);
/* The stream of one head. */
struct stream streaming_head(const struct hashattn_stream *stream, size_t head);

/* What is done with a chunk; bits. */
enum { STREAM_READS = 1, STREAM_ABSORBS = 2 };
/* What hashattn_stream_read does: a causal stream absorbs the keys too. */
int streaming_reads(const struct hashattn_stream *stream);
/* INVALID for a causal stream, which gets its keys with its queries. */
hashattn_status streaming_refuse_causal(struct hashattn_stream *stream);
/* Rows so far of what is done. */
size_t *streaming_position(struct hashattn_stream *stream, int what);
/* Checks the chunk and runs it on all heads. */
hashattn_status streaming_run(struct hashattn_stream *stream, const hashattn_chunk *chunk, int what);

#endif
