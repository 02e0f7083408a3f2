/* One pass hashes all beginnings of the rest of the word; then they are looked up, the longest first. The
   prefix is written over the bytes before the rest, which are done.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/wordpiece.h"

#include <string.h>

void wordpiece_scratch_free(struct host *host, struct wordpiece_scratch *scratch)
{
    memory_free(host, scratch->hashes);
    memory_free(host, scratch->bytes);
}

static size_t count_characters(struct piece word)
{
    size_t count = 0;
    for (size_t i = 0; i < word.size; i++)
        count += ((unsigned char)word.bytes[i] & 0xc0) != 0x80;
    return count;
}

/* The size of the longest token that `rest`, of `size` bytes after the prefix, begins with; 0: none. */
static size_t longest_token(const struct vocabulary *vocabulary, uint64_t *hashes, const char *rest,
                            size_t prefix, size_t size, uint32_t *id)
{
    size_t most = size_min(prefix + size, vocabulary->longest);
    uint64_t hash = VOCABULARY_HASH;
    for (size_t i = 0; i < most; i++)
        hashes[i] = hash = vocabulary_hash(hash, rest[i]);
    for (size_t i = most; i > prefix; i--)
        if (vocabulary_look_up(vocabulary, (struct piece){rest, i}, hashes[i - 1], id) &&
            !vocabulary->entries[*id].outside)
            return i - prefix;
    return 0;
}

hashattn_status wordpiece_word(struct host *host, const struct wordpiece *wordpiece,
                               const struct vocabulary *vocabulary, struct wordpiece_scratch *scratch,
                               struct piece word, struct word_tokens *tokens)
{
    size_t prefix = wordpiece->prefix_size, size;
    TRY(memory_grow(host, &scratch->bytes, &scratch->bytes_room, 0, prefix + word.size, 1, "a word"));
    TRY(memory_grow(host, &scratch->hashes, &scratch->hashes_room, 0, vocabulary->longest, sizeof(uint64_t),
                    "a word"));
    tokens->count = 0;
    TRY(word_tokens_grow(host, tokens, word.size));
    const struct word_token unknown = {wordpiece->unknown, 0, (uint32_t)word.size};
    memcpy(scratch->bytes + prefix, word.bytes, word.size);
    size_t at = count_characters(word) > wordpiece->max_characters ? word.size + 1 : 0;
    while (at < word.size) {
        uint32_t id;
        size_t before = at > 0 ? prefix : 0;
        char *rest = scratch->bytes + prefix + at - before;
        memcpy(rest, wordpiece->prefix, before);
        size = longest_token(vocabulary, scratch->hashes, rest, before, word.size - at, &id);
        if (size == 0)
            break;
        tokens->list[tokens->count++] = (struct word_token){id, (uint32_t)at, (uint32_t)(at + size)};
        at += size;
    }
    if (at != word.size) {
        tokens->list[0] = unknown;
        tokens->count = 1;
    }
    return HASHATTN_OK;
}
