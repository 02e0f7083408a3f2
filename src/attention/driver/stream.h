/* Attention over one head of a sequence that comes in chunks: longer than memory, in a file, or still
   arriving. Keys are absorbed into a state of constant size, then queries are read against it; a causal
   stream is one pass, token by token. States of shards can be merged. Mechanisms without a state are refused
   by name. Forward only. Heads are independent streams; one may use all threads of a pool. Ownership: the
   caller owns the state and the scratch block; a chunk's views belong to the source and live until it is
   called again. Nothing here allocates.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_STREAM_H
#define ATTENTION_STREAM_H

#include "attention/mechanism.h"

struct stream {
    const struct kernels *kernels;
    const struct mechanism *mechanism;
    const void *options;
    size_t head_dim, value_dim;
    bool causal;
    size_t chunk_rows;   /* maximum rows of a chunk, >= 1 */
    struct pool *pool;   /* or NULL; the bits do not depend on it */
    uint64_t call_key;   /* as in struct attention_call: determines the planes */
    uint64_t random_key; /* this head's, random_key(call_key, RANDOM_HEAD, head) in evaluation */
    const float *params; /* this head's; or NULL */
};

/* Consecutive rows of the sequence; no rows = the end. absorb reads key and value; read reads query and
   writes out; a causal read uses all four, with equal row counts. Other views are ignored. */
struct stream_chunk {
    struct view query, key, value;
    const uint8_t *key_mask; /* 1 = the key takes part; or NULL */
    struct view out;         /* written */
};

/* Fills the chunk that begins at `position`. A failure ends the stream and is returned. */
typedef hashattn_status (*stream_source)(void *user, struct host *host, size_t position,
                                         struct stream_chunk *chunk);

/* Checks the numbers; refuses a mechanism without a state, and shapes that the mechanism refuses. */
hashattn_status stream_check(struct host *host, const struct stream *stream);
size_t stream_state_size(const struct stream *stream);
size_t stream_scratch_size(const struct stream *stream);

/* Absorbs or reads one chunk at `position`: the body of the loops below. */
hashattn_status stream_absorb_chunk(struct host *host, const struct stream *stream, size_t position,
                                    const struct stream_chunk *chunk, void *state, void *scratch);
hashattn_status stream_read_chunk(struct host *host, const struct stream *stream, size_t position,
                                  const struct stream_chunk *chunk, void *state, void *scratch);

/* Makes an empty state. The stream has been checked, here and below. */
void stream_open(const struct stream *stream, void *state, void *scratch);
/* Absorbs all keys of the source; its first row has position `first`. Not for causal streams. */
hashattn_status stream_absorb(struct host *host, const struct stream *stream, size_t first,
                              stream_source source, void *user, void *state, void *scratch);
/* Answers all queries of the source; its first row has position `first`. */
hashattn_status stream_read(struct host *host, const struct stream *stream, size_t first,
                            stream_source source, void *user, void *state, void *scratch);
/* into += from, both states of this stream. */
void stream_merge(const struct stream *stream, void *into, const void *from);

#endif
