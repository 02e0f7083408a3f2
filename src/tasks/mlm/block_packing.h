/* From the tokens of a block to the examples of splits, in order, by the calling thread, which costs a few
   per cent of encoding. An example depends on (seed, split, section, duplicate) only. With order nsp, B is
   from another document of the block; a document alone in its block takes B from the block before, whose
   tokens are kept, or, in the first block, from the next.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_BLOCK_PACKING_H
#define TASKS_BLOCK_PACKING_H

#include "tasks/mlm/block_encoding.h"
#include "tasks/mlm/token_file.h"

struct block_packer {
    /* Set by the caller. */
    struct host *host;
    struct pair_rules rules;    /* without `others` */
    int64_t duplicates;         /* how often the documents of the training set are packed */
    double shares[SPLIT_COUNT]; /* of the training documents that are drawn for a split */
    uint64_t seed;
    struct token_writer *writers; /* (SPLIT_COUNT) */
    size_t documents, dropped;    /* grow by those that are packed, and by the tokens in no example */

    struct encoded_block blocks[2];
    struct encoded_block *now;     /* encode the next block here */
    struct encoded_block *before;  /* with ORDER_NSP, the last block before it that has tokens */
    bool waiting;                  /* the only document of `before` is not packed yet */
    struct token_document *others; /* (others_capacity) with tokens */
    size_t num_others, others_capacity;
};
hashattn_status block_packer_open(const struct pool *pool, struct block_packer *packer);
/* Also after a failure. The writers stay. */
void block_packer_close(struct block_packer *packer);

/* Forgets the last block, so that B is never from the files before. No document may be waiting. */
void block_packer_begin_files(struct block_packer *packer);
/* Packs the documents of *packer->now; files: which of them they are from. */
hashattn_status block_pack(struct block_packer *packer, enum split files);

#endif
