/* WordPiece of one word: the longest token that the rest of the word begins with, again and again. Tokens
   inside a word begin with a prefix ("##"). Source: Wu et al. 2016; BERT.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include "text/max_match.h"
#include "text/vocabulary.h"
#include "text/word_tokens.h"

enum { WORDPIECE_PREFIX = 16 }; /* bytes of a prefix, at most */

struct wordpiece {
    char prefix[WORDPIECE_PREFIX]; /* of tokens inside a word */
    size_t prefix_size;
    size_t max_characters; /* a longer word is one unknown token */
    uint32_t unknown;      /* id */
    struct max_match tokens;
};

/* Takes the tokens of the vocabulary, given the prefix. wordpiece_free also after a failure. */
hashattn_status wordpiece_init(struct host *host, struct wordpiece *wordpiece,
                               const struct vocabulary *vocabulary);
void wordpiece_free(struct host *host, struct wordpiece *wordpiece);

/* Replaces `tokens` by those of a word. A word with a part that has no token is one unknown token. run is
   scratch memory. Cost: bytes. */
hashattn_status wordpiece_word(struct host *host, const struct wordpiece *wordpiece,
                               struct max_match_run *run, struct piece word, struct word_tokens *tokens);

#endif
