/* A key-value cache of one layer, and attention of the last rows over it: for decoders that produce one token
   after another.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_CACHE_H
#define HASHATTN_CACHE_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_cache_options {
    size_t struct_size;
    /* "softmax": exact attention over all rows. "hashed": few rows are read exactly, a sample by importance
       from codes of the keys, which the query heads of a key-value head share. For comparison: "top" takes
       the rows with the best scores by codes, "top-uniform" half of them, and half by chance; "hamming" those
       with the most signs equal to the query's, "lsh" those that collide with it in a table; "window" only
       the first and the last rows. */
    const char *mechanism;
    size_t num_sequences;
    /* Query heads and key-value heads. kv_heads divides num_heads: query head h reads key-value head
       h / (num_heads / kv_heads). */
    size_t num_heads, kv_heads;
    size_t head_dim; /* d, of keys and values, 1 to 256 */
    /* Type of the stored rows. In a BF16 cache, keys and values are rounded to bfloat16; softmax rounds
       queries and the weights of the values, too. Sums are float32. */
    hashattn_element element;
    double scale; /* of the scores, 1e-30 to 1000; 0: 1 / sqrt(head_dim) */
    /* 0: a query sees all rows up to its own. Otherwise the query at position p sees the rows from
       (p / window_step + 1) * window_step - window on: with window_step 1 the last `window` rows, its own
       among them; with window 3 s and window_step s what causal `local` of block_size s sees. */
    size_t window, window_step;
    /* The rest is for mechanisms other than softmax. */
    /* Rows that a query row reads exactly: a share of the rows that it sees if below 1, otherwise their
       number. The query heads of a key-value head read the same rows ("lsh": each its own). First and last
       rows, and those of the last block of 64 until it is full, are included; at least 16 others are read. A
       query that sees no more rows than that reads all. */
    double budget;
    /* hashed, above 0: the relative error of the output to aim at, in place of a budget. Each row of a
       key-value head reads more rows until the error that its sample shows is not larger for any of its
       query heads, five times at most. */
    double tolerance;
    /* Of a key's code: a multiple of 16, 16 to 1024; 0: two for each column, at least 128. The columns are
       rotated and rounded to 1, 2 or 4 bits, whichever errs least. */
    size_t bits;
    size_t first_rows, last_rows; /* always read */
    /* t: hashed takes row j with a probability that grows as the sum of exp(t score) over the query heads of
       a key-value head, each relative to its sum over all rows; up to 1. 0.05 to 2; 0: what suits the error
       of scores, 0.99 with four bits for each column, 0.88 with two, 0.64 with one, 0.32 with half of one. */
    double sharpness;
    uint64_t seed; /* determines the codes and the samples */
} hashattn_cache_options;

/* softmax, 1 sequence, 1 head, 1 key-value head, FLOAT32, no window, window_step 1; budget 0.02, 4 first
   and 32 last rows; bits, sharpness and head_dim 0. */
HASHATTN_API void hashattn_cache_options_default_sized(hashattn_cache_options *options, size_t struct_size);
HASHATTN_INLINE void hashattn_cache_options_default(hashattn_cache_options *options)
{
    hashattn_cache_options_default_sized(options, sizeof *options);
}

/* Creates an empty cache. INVALID: a number out of range, or an unknown mechanism. */
typedef struct hashattn_cache hashattn_cache;
HASHATTN_API hashattn_status hashattn_cache_new(hashattn_context *context,
                                                const hashattn_cache_options *options,
                                                hashattn_cache **cache);
HASHATTN_API void hashattn_cache_free(hashattn_cache *cache);

/* Appends `rows` rows to every sequence. Element (sequence s, row r, head h, column c) of key and value is
   data[s * sequence_stride + r * row_stride + h * head_stride + c], of type `element`, which may differ from
   that of the cache; there are kv_heads heads. key_mask: (num_sequences, rows), 1 = the row is appended, 0 =
   it does not exist, and its key and value may hold anything; NULL = all are appended. Sequences of a padded
   batch thus have different lengths. INVALID: NaN or infinity, a key above 1e15 or a value above 1e30 in
   size, with the place. NO_MEMORY. An error leaves the cache as it was. */
HASHATTN_API hashattn_status hashattn_cache_append(hashattn_cache *cache, size_t rows,
                                                   hashattn_element element, const hashattn_array *key,
                                                   const hashattn_array *value, const uint8_t *key_mask);
/* out = attention of the last `rows` rows of every sequence: row r is at position length - rows + r and sees
   the keys up to its own. query and out have num_heads heads. If a sequence has fewer rows, the first query
   rows, those of left padding, see nothing and get 0. Allocates nothing if an earlier call had as many rows
   and the longest sequence has not grown by 4,096 rows. INVALID: as for append; strides that make two
   elements of out overlap, or out overlaps query. NO_MEMORY. An error leaves `out` unchanged. */
HASHATTN_API hashattn_status hashattn_cache_attend(hashattn_cache *cache, size_t rows,
                                                   hashattn_element element, const hashattn_array *query,
                                                   const hashattn_array *out);

/* Of the last attention, the mean over query rows and heads. */
typedef struct hashattn_cache_report {
    size_t struct_size;
    /* Rows whose keys and values were read exactly; a row that is read twice counts twice. */
    double rows_read;
    double error; /* relative error of the output, as the sample itself shows it; 0 without a sample */
} hashattn_cache_report;
HASHATTN_API void hashattn_cache_describe(const hashattn_cache *cache, hashattn_cache_report *report);

/* Writes the rows and the options to a file, which appears whole or not at all, and makes a cache of it: a
   prompt that is read once. The loaded cache gives the bits of the saved one on the same instruction set.
   Its blocks of 256 rows may take 128 MiB, or 32 times the bytes of the file if that is more: 17 rows a
   sequence suffice, if codes are not longer than rows. REFUSED: saving a cache that takes more. NO_DISK: it
   cannot be written. BAD_FILE: not a cache, one that takes more, or damaged, with the reason. */
HASHATTN_API hashattn_status hashattn_cache_save(const hashattn_cache *cache, const char *path);
HASHATTN_API hashattn_status hashattn_cache_load(hashattn_context *context, const char *path,
                                                 hashattn_cache **cache);
/* The options that the cache was made with; bits, scale and sharpness are those in use. */
HASHATTN_API void hashattn_cache_get_options(const hashattn_cache *cache, hashattn_cache_options *options);

/* Rows of a sequence (0 past the last sequence), and the number of sequences. */
HASHATTN_API size_t hashattn_cache_length(const hashattn_cache *cache, size_t sequence);
HASHATTN_API size_t hashattn_cache_num_sequences(const hashattn_cache *cache);
/* Keeps the first lengths[s] rows of every sequence s. INVALID: a sequence is shorter; nothing has changed
   then. The cache equals one that got only those rows. */
HASHATTN_API hashattn_status hashattn_cache_truncate(hashattn_cache *cache, const size_t *lengths);
/* Sequence s becomes what sequence from[s] was, for s < count, which may differ from the present number of
   sequences: the beams of a search. Rows are not copied: sequences share full blocks of 256 rows. INVALID: an
   index out of range. NO_MEMORY. An error leaves the cache as it was. */
HASHATTN_API hashattn_status hashattn_cache_reorder(hashattn_cache *cache, const size_t *from, size_t count);
/* Drops all rows. */
HASHATTN_API void hashattn_cache_clear(hashattn_cache *cache);
/* Bytes that the cache holds. Rows come in blocks of 256, which are allocated as they are needed and never
   move. */
HASHATTN_API size_t hashattn_cache_nbytes(const hashattn_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
