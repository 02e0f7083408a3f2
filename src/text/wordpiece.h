/* WordPiece of one word: the longest token that the rest of the word begins with, again and again. Tokens
   inside a word begin with a prefix ("##"). Source: Wu et al. 2016; BERT.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include "text/vocabulary.h"
#include "text/word_tokens.h"

enum { WORDPIECE_PREFIX = 16 }; /* bytes of a prefix, at most */

struct wordpiece {
    char prefix[WORDPIECE_PREFIX]; /* of tokens inside a word */
    size_t prefix_size;
    size_t max_characters; /* a longer word is one unknown token */
    uint32_t unknown;      /* id */
};

/* Scratch memory, reused; zeroed at first. */
struct wordpiece_scratch {
    uint64_t *hashes; /* of the beginnings of the rest of the word */
    char *bytes;      /* room for a prefix, and the word */
    size_t hashes_room, bytes_room;
};
void wordpiece_scratch_free(struct host *host, struct wordpiece_scratch *scratch);

/* Replaces `tokens` by those of a word. A word with a part that has no token is one unknown token. Cost:
   tokens * longest token. */
hashattn_status wordpiece_word(struct host *host, const struct wordpiece *wordpiece,
                               const struct vocabulary *vocabulary, struct wordpiece_scratch *scratch,
                               struct piece word, struct word_tokens *tokens);

#endif
