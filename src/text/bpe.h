/* Byte-pair encoding of one word: the pair of neighbouring tokens with the lowest rank is merged, again and
   again, leftmost first. Source: Sennrich, Haddow and Birch 2016; ranks as in GPT-2.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "text/vocabulary.h"
#include "text/word_tokens.h"

struct bpe_merge {
    uint32_t left, right, rank, result; /* ids, the order of merging, and the id of the joined token */
};

struct bpe {
    struct bpe_merge *merges;     /* (num_pairs) of different pairs */
    size_t num_pairs, num_merges; /* num_merges: rows read, of which the last of a pair counts */
    struct index_table pairs;     /* indices of merges */
    uint32_t byte_ids[256];       /* the token of each byte; BPE_NONE: the vocabulary has none */
    uint32_t unknown;             /* for such a byte; BPE_NONE: it is dropped, as in the reference */
};

#define BPE_NONE UINT32_MAX

/* Fills byte_ids; room for `merges` merges. bpe_free also after a failure. */
hashattn_status bpe_init(struct host *host, struct bpe *bpe, const struct vocabulary *vocabulary,
                         size_t merges);
/* Adds the merge of the next rank. A pair that is there already gets the new rank, as in the reference.
   BAD_FILE: a part is empty, or a part or the result is not in the vocabulary. */
hashattn_status bpe_add(struct host *host, struct bpe *bpe, const struct vocabulary *vocabulary,
                        struct piece left, struct piece right);
void bpe_free(struct host *host, struct bpe *bpe);

/* Scratch memory for words, reused; zeroed at first. */
struct bpe_symbol {
    uint32_t id, begin, end; /* bytes begin .. end of the word; end 0: merged into another symbol */
    uint32_t previous, next; /* BPE_NONE: none */
    uint32_t rank, result;   /* of the merge with the next symbol; rank BPE_NONE: none */
};
struct bpe_scratch {
    struct bpe_symbol *symbols;
    size_t symbols_capacity;
    uint64_t *heap; /* rank << 32 | index of the left symbol */
    size_t heap_capacity;
};
void bpe_scratch_free(struct host *host, struct bpe_scratch *scratch);

/* Replaces `tokens` by those of the word. Cost: bytes * log bytes. */
hashattn_status bpe_word(struct host *host, const struct bpe *bpe, struct bpe_scratch *scratch,
                         struct piece word, struct word_tokens *tokens);

#endif
