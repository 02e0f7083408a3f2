/* Symbols are a linked list in an array, and possible merges a binary heap. A merge writes two new pairs; an
   entry of the heap whose symbol has changed is recognised by its rank and skipped.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/bpe.h"

#include <string.h>

#include "base/memory.h"
#include "text/byte_level.h"
#include "text/characters.h"

/* NULL: the pair is not merged. */
static struct bpe_merge *merge_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint32_t index;
    uint64_t hash = hash_pair(&bpe->pairs.key, left, right);
    for (size_t probes = 0; index_table_next(&bpe->pairs, hash, &probes, &index);)
        if (bpe->merges[index].left == left && bpe->merges[index].right == right)
            return &bpe->merges[index];
    return NULL;
}

hashattn_status bpe_init(struct host *host, struct bpe *bpe, const struct vocabulary *vocabulary,
                         size_t merges)
{
    *bpe = (struct bpe){.unknown = BPE_NONE};
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        size_t size = character_write(byte_level_character((unsigned char)byte), text);
        bpe->byte_ids[byte] = BPE_NONE;
        vocabulary_find(vocabulary, (struct piece){text, size}, &bpe->byte_ids[byte]);
    }
    void *block;
    TRY(memory_new(host, merges, sizeof *bpe->merges, "merges", &block));
    bpe->merges = block;
    return HASHATTN_OK;
}

void bpe_free(struct host *host, struct bpe *bpe)
{
    memory_free(host, bpe->merges);
    index_table_free(host, &bpe->pairs);
    bpe->merges = NULL;
}

hashattn_status bpe_add(struct host *host, struct bpe *bpe, const struct vocabulary *vocabulary,
                        struct piece left, struct piece right)
{
    uint32_t ids[2], result;
    const struct piece parts[2] = {left, right};
    for (int i = 0; i < 2; i++) {
        FAIL_IF(parts[i].size == 0, host, HASHATTN_BAD_FILE, "merge %zu has an empty part", bpe->num_merges);
        FAIL_IF(!vocabulary_find(vocabulary, parts[i], &ids[i]), host, HASHATTN_BAD_FILE,
                "merge %zu: '%.*s' is not in the vocabulary", bpe->num_merges,
                (int)size_min(parts[i].size, 60), parts[i].bytes);
    }
    char small[256], *joined = small;
    size_t size = left.size + right.size;
    void *block = NULL;
    bool found = size <= vocabulary->longest;
    if (found && size > sizeof small) {
        TRY(memory_new(host, size, 1, "a token", &block));
        joined = block;
    }
    if (found) {
        memcpy(joined, left.bytes, left.size);
        memcpy(joined + left.size, right.bytes, right.size);
        found = vocabulary_find(vocabulary, (struct piece){joined, size}, &result);
    }
    memory_free(host, block);
    FAIL_IF(!found, host, HASHATTN_BAD_FILE, "merge %zu: '%.*s%.*s' is not in the vocabulary",
            bpe->num_merges, (int)size_min(left.size, 60), left.bytes, (int)size_min(right.size, 60),
            right.bytes);
    TRY(index_table_grow(host, &bpe->pairs));
    struct bpe_merge *merge = merge_of(bpe, ids[0], ids[1]);
    if (merge == NULL) {
        index_table_add(&bpe->pairs, hash_pair(&bpe->pairs.key, ids[0], ids[1]), (uint32_t)bpe->num_pairs);
        merge = &bpe->merges[bpe->num_pairs++];
    }
    *merge = (struct bpe_merge){ids[0], ids[1], (uint32_t)bpe->num_merges++, result};
    return HASHATTN_OK;
}

/* ---- one word ----------------------------------------------------------------------------------------- */

void bpe_scratch_free(struct host *host, struct bpe_scratch *scratch)
{
    memory_free(host, scratch->symbols);
    memory_free(host, scratch->heap);
}

static void heap_push(uint64_t *heap, size_t *count, uint64_t entry)
{
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count)
{
    uint64_t top = heap[0], last = heap[--(*count)];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < *count) {
        child += child + 1 < *count && heap[child + 1] < heap[child];
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Looks up the merge of a symbol with its next one, and adds it to the heap. */
static void pair_up(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t at, size_t *count)
{
    struct bpe_symbol *symbol = &scratch->symbols[at];
    symbol->rank = BPE_NONE;
    if (symbol->next == BPE_NONE)
        return;
    const struct bpe_merge *merge = merge_of(bpe, symbol->id, scratch->symbols[symbol->next].id);
    if (merge == NULL)
        return;
    symbol->rank = merge->rank;
    symbol->result = merge->result;
    heap_push(scratch->heap, count, (uint64_t)merge->rank << 32 | at);
}

/* One symbol per byte that has a token; returns their number. */
static uint32_t symbols_of(const struct bpe *bpe, struct bpe_symbol *symbols, struct piece word)
{
    uint32_t count = 0;
    for (size_t i = 0; i < word.size; i++) {
        uint32_t id = bpe->byte_ids[(unsigned char)word.bytes[i]];
        if (id == BPE_NONE)
            id = bpe->unknown;
        if (id == BPE_NONE)
            continue;
        symbols[count] = (struct bpe_symbol){
            .id = id, .begin = (uint32_t)i, .end = (uint32_t)i + 1, .previous = count - 1, .next = count + 1};
        count++;
    }
    if (count > 0)
        symbols[count - 1].next = BPE_NONE;
    return count;
}

hashattn_status bpe_word(struct host *host, const struct bpe *bpe, struct bpe_scratch *scratch,
                         struct piece word, struct word_tokens *tokens)
{
    FAIL_IF(word.size >= BPE_NONE, host, HASHATTN_INVALID, "a word of %zu bytes", word.size);
    /* Every merge removes a symbol and adds at most two pairs. */
    TRY(memory_grow(host, &scratch->symbols, &scratch->symbols_capacity, 0, word.size,
                    sizeof *scratch->symbols, "the symbols of a word"));
    TRY(memory_grow(host, &scratch->heap, &scratch->heap_capacity, 0, 3 * word.size, sizeof *scratch->heap,
                    "the merges of a word"));
    struct bpe_symbol *symbols = scratch->symbols;
    uint32_t num_symbols = symbols_of(bpe, symbols, word);
    size_t count = 0;
    for (uint32_t i = 0; i < num_symbols; i++)
        pair_up(bpe, scratch, i, &count);
    while (count > 0) {
        uint64_t entry = heap_pop(scratch->heap, &count);
        struct bpe_symbol *left = &symbols[(uint32_t)entry];
        if (left->end == 0 || left->rank != entry >> 32)
            continue;
        struct bpe_symbol *right = &symbols[left->next];
        left->id = left->result;
        left->end = right->end;
        left->next = right->next;
        right->end = 0;
        if (left->next != BPE_NONE)
            symbols[left->next].previous = (uint32_t)entry;
        pair_up(bpe, scratch, (uint32_t)entry, &count);
        if (left->previous != BPE_NONE)
            pair_up(bpe, scratch, left->previous, &count);
    }
    tokens->count = 0;
    TRY(word_tokens_grow(host, tokens, num_symbols));
    for (uint32_t i = num_symbols > 0 ? 0 : BPE_NONE; i != BPE_NONE; i = symbols[i].next)
        tokens->list[tokens->count++] = (struct word_token){symbols[i].id, symbols[i].begin, symbols[i].end};
    return HASHATTN_OK;
}
