/* Open addressing in a table at most half full.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/vocabulary.h"

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer.h"

static uint64_t hash_of(struct piece token)
{
    uint64_t hash = VOCABULARY_HASH;
    for (size_t i = 0; i < token.size; i++)
        hash = vocabulary_hash(hash, token.bytes[i]);
    return hash;
}

static size_t first_slot(const struct vocabulary *vocabulary, uint64_t hash)
{
    return (hash ^ hash >> 29) & (vocabulary->num_slots - 1);
}

void vocabulary_free(struct host *host, struct vocabulary *vocabulary)
{
    memory_free(host, vocabulary->bytes);
    memory_free(host, vocabulary->entries);
    memory_free(host, vocabulary->slots);
    *vocabulary = (struct vocabulary){.bytes = NULL};
}

struct piece vocabulary_get(const struct vocabulary *vocabulary, uint64_t id)
{
    if (id >= vocabulary->num_ids || !vocabulary->entries[id].taken)
        return (struct piece){NULL, 0};
    return (struct piece){vocabulary->bytes + vocabulary->entries[id].start, vocabulary->entries[id].size};
}

bool vocabulary_look_up(const struct vocabulary *vocabulary, struct piece token, uint64_t hash, uint32_t *id)
{
    if (vocabulary->num_slots == 0)
        return false;
    for (size_t slot = first_slot(vocabulary, hash); vocabulary->slots[slot] != 0;
         slot = (slot + 1) & (vocabulary->num_slots - 1)) {
        const struct vocabulary_entry *entry = &vocabulary->entries[vocabulary->slots[slot] - 1];
        if (entry->size == token.size &&
            memcmp(vocabulary->bytes + entry->start, token.bytes, token.size) == 0) {
            *id = vocabulary->slots[slot] - 1;
            return true;
        }
    }
    return false;
}

bool vocabulary_find(const struct vocabulary *vocabulary, struct piece token, uint32_t *id)
{
    return vocabulary_look_up(vocabulary, token, hash_of(token), id);
}

static void insert(struct vocabulary *vocabulary, uint32_t id)
{
    size_t slot = first_slot(vocabulary, hash_of(vocabulary_get(vocabulary, id)));
    while (vocabulary->slots[slot] != 0)
        slot = (slot + 1) & (vocabulary->num_slots - 1);
    vocabulary->slots[slot] = id + 1;
}

static hashattn_status grow_slots(struct host *host, struct vocabulary *vocabulary)
{
    if (2 * (vocabulary->count + 1) <= vocabulary->num_slots)
        return HASHATTN_OK;
    size_t num_slots = size_max(256, 2 * vocabulary->num_slots);
    void *block;
    TRY(memory_new_zeroed(host, num_slots, sizeof *vocabulary->slots, "table of tokens", &block));
    memory_free(host, vocabulary->slots);
    vocabulary->slots = block;
    vocabulary->num_slots = num_slots;
    for (size_t id = 0; id < vocabulary->num_ids; id++)
        if (vocabulary->entries[id].taken)
            insert(vocabulary, (uint32_t)id);
    return HASHATTN_OK;
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
    FAIL_IF(id >= TOKENIZER_MOST_IDS, host, HASHATTN_BAD_FILE,
            "token '%.*s' has id %llu, allowed are 0 to %d (2^20 entries)", shown(token), token.bytes,
            (unsigned long long)id, TOKENIZER_MOST_IDS - 1);
    struct piece before = vocabulary_get(vocabulary, id);
    FAIL_IF(before.bytes != NULL, host, HASHATTN_BAD_FILE, "tokens '%.*s' and '%.*s' both have id %llu",
            shown(before), before.bytes, shown(token), token.bytes, (unsigned long long)id);
    FAIL_IF(vocabulary_find(vocabulary, token, &other), host, HASHATTN_BAD_FILE,
            "token '%.*s' has two ids, %u and %llu", shown(token), token.bytes, other,
            (unsigned long long)id);
    FAIL_IF(token.size > UINT32_MAX, host, HASHATTN_BAD_FILE, "a token of %zu bytes", token.size);
    if (id >= vocabulary->num_ids) {
        TRY(memory_grow(host, &vocabulary->entries, &vocabulary->ids_room, vocabulary->num_ids,
                        (size_t)id + 1 - vocabulary->num_ids, sizeof *vocabulary->entries, "tokens"));
        for (size_t i = vocabulary->num_ids; i <= id; i++)
            vocabulary->entries[i] = (struct vocabulary_entry){.taken = false};
        vocabulary->num_ids = (size_t)id + 1;
    }
    /* One byte more, so that even an empty token has an address. */
    TRY(memory_grow(host, &vocabulary->bytes, &vocabulary->bytes_room, vocabulary->num_bytes, token.size + 1,
                    1, "tokens"));
    TRY(grow_slots(host, vocabulary));
    if (token.size > 0)
        memcpy(vocabulary->bytes + vocabulary->num_bytes, token.bytes, token.size);
    vocabulary->entries[id] = (struct vocabulary_entry){
        .start = vocabulary->num_bytes, .size = (uint32_t)token.size, .taken = true};
    vocabulary->num_bytes += token.size;
    vocabulary->count++;
    vocabulary->longest = size_max(vocabulary->longest, token.size);
    insert(vocabulary, (uint32_t)id);
    return HASHATTN_OK;
}
