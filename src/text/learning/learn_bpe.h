/* Learns a byte-level BPE: the most frequent pair of neighbouring tokens becomes a token, until the
   vocabulary is full. Vocabulary, merges and ids equal those of the reference library's trainer. Source:
   Sennrich, Haddow and Birch 2016.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_LEARN_BPE_H
#define TEXT_LEARN_BPE_H

#include "text/learning/word_counts.h"
#include "text/tokenizer.h"

enum {
    LEARN_SPECIAL = 5,                 /* <s> <pad> </s> <unk> <mask>, ids 0 to 4 */
    LEARN_LEAST = LEARN_SPECIAL + 256, /* and one token per byte */
};

struct learn_options {
    size_t vocab_size;      /* LEARN_LEAST to VOCABULARY_MOST_IDS; fewer tokens if the text has fewer pairs */
    uint64_t min_frequency; /* of a pair that is merged; at least 1 */
    /* Called now and then; non-zero stops with INTERRUPTED. May be NULL. */
    int (*progress)(void *user, size_t tokens, size_t vocab_size);
    void *user;
};

/* Ties are broken by the ids of the pair. Cost: the words that contain a pair are read again when it is
   merged. */
hashattn_status learn_bpe(struct host *host, const struct word_counts *counts,
                          const struct learn_options *options, struct tokenizer **tokenizer);

#endif
