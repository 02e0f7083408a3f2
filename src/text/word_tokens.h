/* The tokens of one word, as models of words return them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_WORD_TOKENS_H
#define TEXT_WORD_TOKENS_H

#include "base/memory.h"

struct word_token {
    uint32_t id, begin, end; /* bytes begin .. end of the word */
};

/* Zeroed at first; memory_free(host, list) at the end. */
struct word_tokens {
    struct word_token *list; /* (count) */
    size_t count, capacity;
};

/* Makes room for `more` tokens. */
static inline hashattn_status word_tokens_grow(struct host *host, struct word_tokens *tokens, size_t more)
{
    return memory_grow(host, &tokens->list, &tokens->capacity, tokens->count, more, sizeof *tokens->list,
                       "the tokens of a word");
}

#endif
