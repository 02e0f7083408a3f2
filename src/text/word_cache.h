/* The tokens of words seen before. Most words of a text are repeated, and a look-up costs a small part of
   merging. Memory is bounded: a full cache is emptied.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_WORD_CACHE_H
#define TEXT_WORD_CACHE_H

#include <stdbool.h>

#include "base/tables/hash_key.h"
#include "io/lines.h"
#include "text/word_tokens.h"

enum {
    WORD_CACHE_SLOTS = 1 << 16, /* half of them are used */
    WORD_CACHE_ROOM = 1 << 19,  /* 4-byte units for words and tokens */
    WORD_CACHE_LONGEST = 64,    /* bytes of a word; longer ones are not kept */
};

struct word_cache {
    uint32_t *slots; /* (WORD_CACHE_SLOTS) position of a record in `records`, plus 1; 0: free */
    uint32_t *records;
    size_t used, count;
    struct hash_key key;
};
hashattn_status word_cache_init(struct host *host, struct word_cache *cache);
void word_cache_free(struct host *host, struct word_cache *cache);

uint64_t word_cache_hash(const struct word_cache *cache, struct piece word);
/* The tokens of a word. NULL: the cache does not have it. */
const struct word_token *word_cache_find(const struct word_cache *cache, struct piece word, uint64_t hash,
                                         size_t *count);
/* Keeps the tokens of a word that is not there; does nothing for a long one. */
void word_cache_keep(struct word_cache *cache, struct piece word, uint64_t hash,
                     const struct word_tokens *tokens);

#endif
