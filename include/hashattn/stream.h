/* Attention over sequences that come in pieces: longer than memory, read from files, made by a callback, or
   token by token as a decoder makes them. All heads of one sequence at once; forward only. What stays between
   the pieces is a state whose size does not depend on how long the sequence is.
   `yoso` has such a state: num_hashes * 2^hash_bits * value_dim floats for each head (4 MiB at 32, 9 and 64,
   as much as the keys and values of 8,192 tokens; with normalize sum one column more). `softmax` and `yoso-e`
   have none and are REFUSED. The output has the bits of hashattn_attention_forward on the whole sequence with
   the same seed and tables f32 (auto in a context of precision float32), however it is cut into pieces.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_STREAM_H
#define HASHATTN_STREAM_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_stream_options {
    size_t struct_size;
    size_t num_heads, head_dim, value_dim;
    size_t chunk_rows; /* the most rows of a chunk; memory for them is taken once */
    int causal;        /* 1: keys and queries come together, and query i sees keys 0 .. i */
    size_t first_head; /* number of the first of the heads, where the others are streams of their own */
    uint64_t seed;
} hashattn_stream_options;

/* 1 head, chunks of 1 row, not causal; head_dim and value_dim 0. */
HASHATTN_API void hashattn_stream_options_default(hashattn_stream_options *options);

/* Some rows of the sequence, of all heads: row r of head h at data[r * row_stride + h * head_stride]
   (sequence_stride is not used). 0 rows: the end, in a source. */
typedef struct hashattn_chunk {
    size_t struct_size;
    size_t rows;
    hashattn_array query, key, value; /* the data are not written */
    hashattn_array out;
    const uint8_t *key_mask; /* (rows) 1 = the key takes part; NULL = all */
} hashattn_chunk;

/* The state of one sequence, empty. Options of the attention are taken as they are now. REFUSED: a mechanism
   without a state, or what it refuses. NO_MEMORY, with the bytes: the states would not fit this machine. */
typedef struct hashattn_stream hashattn_stream;
HASHATTN_API hashattn_status hashattn_stream_new(hashattn_attention *attention,
                                                 const hashattn_stream_options *options,
                                                 hashattn_stream **stream);
HASHATTN_API void hashattn_stream_free(hashattn_stream *stream);
/* Empty again. */
HASHATTN_API void hashattn_stream_clear(hashattn_stream *stream);
/* Bytes that it holds: states, and work space for a chunk. */
HASHATTN_API size_t hashattn_stream_bytes(const hashattn_stream *stream);

/* Keys and values of the chunk enter the state. INVALID for a causal stream, whose keys come with their
   queries; INVALID too: NaN or infinity, more rows than announced. Then the state is as it was. */
HASHATTN_API hashattn_status hashattn_stream_absorb(hashattn_stream *stream, const hashattn_chunk *chunk);
/* out = attention of the queries over all keys that were absorbed. Causal: over those and, in order, the keys
   of this chunk, which enter: one row at a time is a decoder's step. INVALID: as for absorb, and where
   strides let two elements of out meet; nothing has been written then. */
HASHATTN_API hashattn_status hashattn_stream_read(hashattn_stream *stream, const hashattn_chunk *chunk);
/* into += from: states of shards of one sequence. INVALID unless both streams have the same mechanism,
   options, num_heads, first_head, widths, causal and seed. */
HASHATTN_API hashattn_status hashattn_stream_merge(hashattn_stream *into, const hashattn_stream *from);

/* Where chunks come from. `fetch` fills the chunk that begins at row `position` (struct_size is set);
   `done`, which may be NULL, is told of each chunk, in order, when it was computed. Both are called on a
   thread of the library, one call at a time, while the chunk before is computed (that thread computes too,
   when they return): so rows that fetch gave must stay as they are until the second fetch after it, and two
   buffers in turn are enough. Anything but OK ends the stream, and is returned. */
typedef struct hashattn_stream_source {
    size_t struct_size;
    void *user;
    hashattn_status (*fetch)(void *user, size_t position, hashattn_chunk *chunk);
    hashattn_status (*done)(void *user, size_t position, const hashattn_chunk *chunk);
} hashattn_stream_source;

/* Absorbs, or reads, chunk after chunk until one has no rows. rows: how many there were; may be NULL. */
HASHATTN_API hashattn_status hashattn_stream_absorb_all(hashattn_stream *stream,
                                                        const hashattn_stream_source *source, size_t *rows);
HASHATTN_API hashattn_status hashattn_stream_read_all(hashattn_stream *stream,
                                                      const hashattn_stream_source *source, size_t *rows);

#ifdef __cplusplus
}
#endif
#endif
