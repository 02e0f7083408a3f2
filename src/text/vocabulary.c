/* An array by id, and a table of the tokens.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/vocabulary.h"

#include <string.h>

#include "base/memory.h"

void vocabulary_free(struct host *host, struct vocabulary *vocabulary)
{
    memory_free(host, vocabulary->bytes);
    memory_free(host, vocabulary->entries);
    index_table_free(host, &vocabulary->tokens);
    *vocabulary = (struct vocabulary){.bytes = NULL};
}

struct piece vocabulary_get(const struct vocabulary *vocabulary, uint64_t id)
{
    if (id >= vocabulary->num_ids || !vocabulary->entries[id].taken)
        return (struct piece){NULL, 0};
    return (struct piece){vocabulary->bytes + vocabulary->entries[id].start, vocabulary->entries[id].size};
}

static uint64_t hash_of(const struct vocabulary *vocabulary, struct piece token)
{
    return hash_bytes(&vocabulary->tokens.key, token.bytes, token.size);
}

bool vocabulary_find(const struct vocabulary *vocabulary, struct piece token, uint32_t *id)
{
    uint64_t hash = hash_of(vocabulary, token);
    uint32_t index;
    for (size_t probes = 0; index_table_next(&vocabulary->tokens, hash, &probes, &index);) {
        const struct vocabulary_entry *entry = &vocabulary->entries[index];
        if (entry->size == token.size &&
            memcmp(vocabulary->bytes + entry->start, token.bytes, token.size) == 0) {
            *id = index;
            return true;
        }
    }
    return false;
}

/* The part of a token that fits a message. */
static int shown(struct piece token)
{
    return (int)size_min(token.size, 60);
}

hashattn_status vocabulary_add(struct host *host, struct vocabulary *vocabulary, struct piece token,
                               uint64_t id)
{
    uint32_t other;
    FAIL_IF(id >= VOCABULARY_MOST_IDS, host, HASHATTN_BAD_FILE,
            "token '%.*s' has id %llu, allowed are 0 to %d (2^20 entries)", shown(token), token.bytes,
            (unsigned long long)id, VOCABULARY_MOST_IDS - 1);
    struct piece before = vocabulary_get(vocabulary, id);
    FAIL_IF(before.bytes != NULL, host, HASHATTN_BAD_FILE, "tokens '%.*s' and '%.*s' both have id %llu",
            shown(before), before.bytes, shown(token), token.bytes, (unsigned long long)id);
    FAIL_IF(vocabulary_find(vocabulary, token, &other), host, HASHATTN_BAD_FILE,
            "token '%.*s' has two ids, %u and %llu", shown(token), token.bytes, other,
            (unsigned long long)id);
    FAIL_IF(token.size > UINT32_MAX, host, HASHATTN_BAD_FILE, "a token of %zu bytes", token.size);
    if (id >= vocabulary->num_ids) {
        TRY(memory_grow(host, &vocabulary->entries, &vocabulary->ids_capacity, vocabulary->num_ids,
                        (size_t)id + 1 - vocabulary->num_ids, sizeof *vocabulary->entries, "tokens"));
        for (size_t i = vocabulary->num_ids; i <= id; i++)
            vocabulary->entries[i] = (struct vocabulary_entry){.taken = false};
        vocabulary->num_ids = (size_t)id + 1;
    }
    /* One byte more, so that even an empty token has an address. */
    TRY(memory_grow(host, &vocabulary->bytes, &vocabulary->bytes_capacity, vocabulary->num_bytes,
                    token.size + 1, 1, "tokens"));
    TRY(index_table_grow(host, &vocabulary->tokens));
    if (token.size > 0)
        memcpy(vocabulary->bytes + vocabulary->num_bytes, token.bytes, token.size);
    vocabulary->entries[id] = (struct vocabulary_entry){
        .start = vocabulary->num_bytes, .size = (uint32_t)token.size, .taken = true};
    vocabulary->num_bytes += token.size;
    vocabulary->count++;
    vocabulary->longest = size_max(vocabulary->longest, token.size);
    index_table_add(&vocabulary->tokens, hash_of(vocabulary, token), (uint32_t)id);
    return HASHATTN_OK;
}
