/* A record is a header of 8 bytes (part of the hash; size of the word and number of tokens), the tokens, and
   the bytes of the word. Open addressing with linear probing.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/word_cache.h"

#include <string.h>

enum { TOKEN_UNITS = sizeof(struct word_token) / sizeof(uint32_t) };

hashattn_status word_cache_init(struct host *host, struct word_cache *cache)
{
    void *block;
    *cache = (struct word_cache){.key = hash_key_new()};
    TRY(memory_new_zeroed(host, WORD_CACHE_SLOTS, sizeof *cache->slots, "the cache of words", &block));
    cache->slots = block;
    TRY(memory_new(host, WORD_CACHE_ROOM, sizeof *cache->records, "the cache of words", &block));
    cache->records = block;
    return HASHATTN_OK;
}

void word_cache_free(struct host *host, struct word_cache *cache)
{
    memory_free(host, cache->slots);
    memory_free(host, cache->records);
}

uint64_t word_cache_hash(const struct word_cache *cache, struct piece word)
{
    return hash_bytes(&cache->key, word.bytes, word.size);
}

const struct word_token *word_cache_find(const struct word_cache *cache, struct piece word, uint64_t hash,
                                         size_t *count)
{
    if (word.size > WORD_CACHE_LONGEST)
        return NULL;
    for (size_t slot = hash & (WORD_CACHE_SLOTS - 1); cache->slots[slot] != 0;
         slot = (slot + 1) & (WORD_CACHE_SLOTS - 1)) {
        const uint32_t *record = &cache->records[cache->slots[slot] - 1];
        *count = record[1] >> 16;
        const struct word_token *tokens = (const void *)(record + 2);
        if (record[0] == (uint32_t)(hash >> 32) && (record[1] & 0xffff) == word.size &&
            memcmp(tokens + *count, word.bytes, word.size) == 0)
            return tokens;
    }
    return NULL;
}

void word_cache_keep(struct word_cache *cache, struct piece word, uint64_t hash,
                     const struct word_tokens *tokens)
{
    size_t units = 2 + tokens->count * TOKEN_UNITS + (word.size + 3) / 4;
    if (word.size > WORD_CACHE_LONGEST)
        return;
    if (cache->used + units > WORD_CACHE_ROOM || 2 * (cache->count + 1) > WORD_CACHE_SLOTS) {
        memset(cache->slots, 0, WORD_CACHE_SLOTS * sizeof *cache->slots);
        cache->used = cache->count = 0;
    }
    size_t slot = hash & (WORD_CACHE_SLOTS - 1);
    while (cache->slots[slot] != 0)
        slot = (slot + 1) & (WORD_CACHE_SLOTS - 1);
    uint32_t *record = &cache->records[cache->used];
    record[0] = (uint32_t)(hash >> 32);
    record[1] = (uint32_t)(tokens->count << 16 | word.size);
    if (tokens->count > 0)
        memcpy(record + 2, tokens->list, tokens->count * sizeof *tokens->list);
    memcpy(record + 2 + tokens->count * TOKEN_UNITS, word.bytes, word.size);
    cache->slots[slot] = (uint32_t)cache->used + 1;
    cache->used += units;
    cache->count++;
}
