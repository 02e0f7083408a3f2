/* Attention over one head of a sequence that comes in chunks: longer than memory, in a file, or arriving. The
   keys are absorbed into a state of constant size, then queries are read against it; a causal stream is one
   pass, token by token. States of shards are merged. One driver for every mechanism that has a state; the
   others are refused by name. Only forward. Heads are independent streams; one may have a pool to itself.
   Ownership: the caller owns the state and the scratch block; a chunk's views are the source's and live until
   the source is called again. Nothing here allocates. SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_STREAM_H
#define ATTENTION_STREAM_H

#include "attention/mechanism.h"

struct stream {
    const struct kernels *kernels;
    const struct mechanism *mechanism;
    const void *options;
    size_t head_dim, value_dim;
    bool causal;
    size_t chunk_rows;   /* the most rows of a chunk, >= 1 */
    struct pool *pool;   /* for each chunk; or NULL. No bits depend on it. */
    uint64_t call_key;   /* as in a call of attention: the planes come from it */
    uint64_t random_key; /* this head's, random_key(call_key, RANDOM_HEAD, head) in evaluation */
    const float *params; /* this head's; or NULL */
};

/* Some rows of the sequence, in order; no rows = the end. absorb wants key and value, read wants query and
   out, a causal read wants all four, of as many rows. Views that are not wanted are ignored. */
struct stream_chunk {
    struct view query, key, value;
    const uint8_t *key_mask; /* 1 = the key takes part; or NULL */
    struct view out;         /* written */
};

/* Fills the chunk that begins at position `position`. A failure ends the stream and is handed on. */
typedef hashattn_status (*stream_source)(void *user, struct host *host, size_t position,
                                         struct stream_chunk *chunk);

/* Refuses a mechanism without a state, and what the mechanism refuses; checks the numbers. */
hashattn_status stream_check(struct host *host, const struct stream *stream);
size_t stream_state_size(const struct stream *stream);
size_t stream_scratch_size(const struct stream *stream);

/* All keys, or all queries, of one chunk at `position`: what the loops below do with each. */
hashattn_status stream_absorb_chunk(struct host *host, const struct stream *stream, size_t position,
                                    const struct stream_chunk *chunk, void *state, void *scratch);
hashattn_status stream_read_chunk(struct host *host, const struct stream *stream, size_t position,
                                  const struct stream_chunk *chunk, void *state, void *scratch);

/* An empty state. The stream has been checked, here and below. */
void stream_open(const struct stream *stream, void *state, void *scratch);
/* All keys of the source; its first row has position `first`. Not for causal streams. */
hashattn_status stream_absorb(struct host *host, const struct stream *stream, size_t first,
                              stream_source source, void *user, void *state, void *scratch);
/* All queries of the source; its first row has position `first`. */
hashattn_status stream_read(struct host *host, const struct stream *stream, size_t first,
                            stream_source source, void *user, void *state, void *scratch);
/* into += from, both of this stream's form. */
void stream_merge(const struct stream *stream, void *into, const void *from);

#endif
