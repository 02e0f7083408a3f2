/* The sections of a block of texts (text_sections.h) as tokens, by the threads of a pool. Encoders grow, so
   each thread has a host of its own, which uses malloc.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_BLOCK_ENCODING_H
#define TASKS_BLOCK_ENCODING_H

#include "tasks/mlm/pair_packing.h"
#include "tasks/mlm/text_sections.h"

struct pool;
struct tokenizer;

/* The tokens of the sections of a block; reused from block to block. */
struct encoded_block {
    struct encoded_section *list; /* (count), in the order of the texts */
    struct token_store *stores;   /* (threads); grown by the threads */
    size_t count, capacity, num_stores;
};
/* Room for what this pool encodes. On failure *block is empty. */
hashattn_status encoded_block_new(struct host *host, const struct pool *pool, struct encoded_block *block);
void encoded_block_free(struct host *host, struct encoded_block *block);
/* The index of a section among those of all files. */
uint64_t encoded_section_index(const struct encoded_block *block, size_t section);
/* The tokens of a section, valid until the block is encoded again. False: it has none. */
bool encoded_section_tokens(const struct encoded_block *block, size_t section,
                            struct token_document *document);

struct block_encoder {
    struct pool *pool;
    struct encode_worker *workers; /* (threads) */
    size_t num_workers;
};
/* The tokenizer is borrowed. block_encoder_close also after a failure. */
hashattn_status block_encoder_open(struct host *host, const struct tokenizer *tokenizer, struct pool *pool,
                                   struct block_encoder *encoder);
void block_encoder_close(struct host *host, struct block_encoder *encoder);
/* Replaces the tokens of *block by those of the texts. */
hashattn_status block_encode(struct host *host, struct block_encoder *encoder,
                             const struct section_block *texts, struct encoded_block *block);

#endif
