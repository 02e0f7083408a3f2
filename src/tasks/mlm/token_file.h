/* Token files: tokenised examples as the arrays of a data set (tasks/task.h), mapped into memory, so that a
   corpus larger than memory trains. Little-endian, without gaps but to align each array at 8 bytes:

     header           64 bytes, struct token_header
     ids        u32   (num_tokens)
     offsets    u64   (num_examples + 1), ascending from 0 to num_tokens
     labels     u32   (num_examples), 0 or 1; only with an order
     segments   u8    (num_tokens), 0 or 1; only with an order

   Reading checks everything in one pass, 0.3 s per GB, and allocates nothing of the size of the file. Writing
   needs 12 bytes of memory per example.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TOKEN_FILE_H
#define TASKS_TOKEN_FILE_H

#include "base/file_writer.h"
#include "tasks/mlm/pair_packing.h"
#include "tasks/task.h"

#define TOKEN_FILE_MAGIC "hashtok\n"

enum { TOKEN_FILE_VERSION = 1, TOKEN_FILE_LEAST = 3, TOKEN_FILE_MOST = 65536 /* tokens of an example */ };

struct token_header {
    char magic[8];
    uint32_t version, order; /* order: enum pair_order */
    uint64_t num_examples, num_tokens;
    uint64_t tokenizer; /* token_file_hash of the one that made the ids */
    uint32_t num_ids;   /* ids are below it */
    uint32_t seq_len;   /* tokens of the longest example */
    uint64_t unused[2]; /* 0 */
};

struct tokenizer;
/* A hash of all tokens with their ids. */
uint64_t token_file_hash(const struct tokenizer *tokenizer);

/* ---- writing ------------------------------------------------------------------------------------------- */

struct token_writer {
    struct file_writer file;
    struct token_header header;
    uint32_t start, end; /* ids of the special tokens around texts */
    struct token_record *records;
    size_t capacity;
};
/* header: order, tokenizer, num_ids and seq_len. Call commit or abandon after success. */
hashattn_status token_writer_open(struct host *host, const char *path, const struct token_header *header,
                                  uint32_t start, uint32_t end, struct token_writer *writer);
/* Adds [start] a [end] b [end], segments 0 and 1; without an order [start] a [end]. */
hashattn_status token_writer_add(struct host *host, struct token_writer *writer, struct token_span a,
                                 struct token_span b, uint32_t label);
hashattn_status token_writer_commit(struct host *host, struct token_writer *writer);
void token_writer_abandon(struct host *host, struct token_writer *writer);

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Reads the header only. BAD_FILE, with the path: it is no token file, or its size does not fit. */
hashattn_status token_file_header(struct host *host, const char *path, struct token_header *header);
/* Maps a file and checks it. The data set has TARGETS_MASKED, without rules, and with an order one label per
   example. BAD_FILE, with the path and the place: an id, offset, label or segment is out of range. */
hashattn_status token_file_map(struct host *host, const char *path, struct token_header *header,
                               struct dataset *dataset);

#endif
