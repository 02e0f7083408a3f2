/* Attention over a sequence that arrives in chunks: longer than memory, read from files, produced by a
   callback, or token by token in a decoder. All heads of one sequence at once; forward only. Between chunks a
   state is kept whose size does not depend on the length of the sequence.

   `yoso` has such a state: num_hashes * 2^hash_bits * value_dim floats per head, and one column more if
   normalize is sum. At 32, 9 and 64 that is 4 MiB, as much as the keys and values of 8,192 tokens. `linear`
   has one of head_dim * (value_dim + 1) floats, `performer` of num_features * (value_dim + 1), `rfa` of twice
   that, `race` of num_tables * 2^hash_bits * (value_dim + 1). Mechanisms without such a state, `softmax` for
   one, are REFUSED. Learned parameters are those of the attention, as in a call with this seed; the stream
   copies them.

   For any division into chunks the output has the same bits. Those of yoso are the bits of
   hashattn_attention_forward on the whole sequence with the same seed and tables f32 (auto in a context of
   precision float32); outputs of the others are equal to that call's up to rounding.
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
    size_t chunk_rows; /* most rows of a chunk; their memory is allocated once */
    int causal;        /* 1: keys and queries arrive together, and query i sees keys 0 .. i */
    size_t first_head; /* index of the first head, if a model's heads are split over several streams */
    uint64_t seed;
} hashattn_stream_options;

/* 1 head, chunks of 1 row, not causal; head_dim and value_dim 0. */
HASHATTN_API void hashattn_stream_options_default_sized(hashattn_stream_options *options, size_t struct_size);
HASHATTN_INLINE void hashattn_stream_options_default(hashattn_stream_options *options)
{
    hashattn_stream_options_default_sized(options, sizeof *options);
}

/* Some rows of the sequence, of all heads. Row r of head h starts at data[r * row_stride + h * head_stride];
   sequence_stride is ignored. From a source, 0 rows mean the end. */
typedef struct hashattn_chunk {
    size_t struct_size;
    size_t rows;
    hashattn_array query, key, value; /* not written */
    hashattn_array out;
    const uint8_t *key_mask; /* (rows) 1 = the key takes part; NULL = all */
} hashattn_chunk;

/* Creates the empty state of one sequence. Copies the options that the attention has now. REFUSED: the
   mechanism has no state, or refuses the sizes. NO_MEMORY, with the bytes: the states do not fit in the
   memory of this machine. */
typedef struct hashattn_stream hashattn_stream;
HASHATTN_API hashattn_status hashattn_stream_new(hashattn_attention *attention,
                                                 const hashattn_stream_options *options,
                                                 hashattn_stream **stream);
HASHATTN_API void hashattn_stream_free(hashattn_stream *stream);
/* Makes the state empty again. */
HASHATTN_API void hashattn_stream_clear(hashattn_stream *stream);
/* Bytes that the stream holds: the states, and scratch memory for a chunk. */
HASHATTN_API size_t hashattn_stream_bytes(const hashattn_stream *stream);

/* Adds the keys and values of the chunk to the state. INVALID: a causal stream, whose keys arrive with their
   queries in hashattn_stream_read; NaN or infinity; more than chunk_rows rows. An error leaves the state
   unchanged. */
HASHATTN_API hashattn_status hashattn_stream_absorb(hashattn_stream *stream, const hashattn_chunk *chunk);
/* out = attention of the queries over all absorbed keys. A causal stream first adds the keys of the chunk, in
   order, so that query i sees keys 0 .. i; a decoder reads one row at a time. INVALID: as for absorb, or
   strides that make two elements of out overlap, or out overlaps another array; nothing is written then. */
HASHATTN_API hashattn_status hashattn_stream_read(hashattn_stream *stream, const hashattn_chunk *chunk);
/* into += from, for shards of one sequence. INVALID unless both streams have the same mechanism, options,
   learned parameters, num_heads, first_head, widths, causal and seed. */
HASHATTN_API hashattn_status hashattn_stream_merge(hashattn_stream *into, const hashattn_stream *from);

/* A source of chunks. `fetch` fills the chunk that begins at row `position`; struct_size is set. Rows are
   counted since the stream was made or cleared, absorbed ones and read ones apart: another call goes on where
   the last one ended. `done`, which may be NULL, is called for each computed chunk, in order. Both run on
   a thread of the library or on the calling thread, one call at a time, most of them while the previous chunk
   is being computed; so they must not use the context or its objects, except files of io.h that they read or
   write in parts. Rows from a fetch must therefore stay unchanged until the second fetch after it; two
   alternating buffers suffice. Any status but OK ends the call, which returns it; the message has the row,
   and the reason if a call of the library failed in the source. */
typedef struct hashattn_stream_source {
    size_t struct_size;
    void *user;
    hashattn_status (*fetch)(void *user, size_t position, hashattn_chunk *chunk);
    hashattn_status (*done)(void *user, size_t position, const hashattn_chunk *chunk);
} hashattn_stream_source;

/* Absorbs or reads chunks until one has no rows. *rows: the number of rows; may be NULL. */
HASHATTN_API hashattn_status hashattn_stream_absorb_all(hashattn_stream *stream,
                                                        const hashattn_stream_source *source, size_t *rows);
HASHATTN_API hashattn_status hashattn_stream_read_all(hashattn_stream *stream,
                                                      const hashattn_stream_source *source, size_t *rows);

#ifdef __cplusplus
}
#endif
#endif
