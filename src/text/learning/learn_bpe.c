/* Pairs have counts and lists of the words in which they occur; a heap orders them. A merge changes counts of
   pairs beside it; entries of the heap with an old count are put back when they reach the top.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/learning/learn_bpe.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "text/byte_level.h"
#include "text/characters.h"
#include "text/tokenizer_parts.h"

#define NO_NODE UINT32_MAX

struct word {
    size_t start; /* of its tokens in `tokens` */
    uint32_t size;
    uint64_t count;
};

struct node { /* of the list of words with a pair */
    uint32_t word, next;
};

struct pair {
    uint64_t key; /* left id << 32 | right id */
    int64_t count;
    uint32_t words; /* first node; a word may be listed although the pair is gone from it */
    bool touched;   /* its count has grown in this merge */
    bool merged;
};

struct queued {
    int64_t count;
    uint64_t key;
    uint32_t pair;
};

struct learner {
    struct host *host;
    struct vocabulary *vocabulary;
    uint32_t *tokens; /* of all words, one after another */
    struct word *words;
    size_t num_words;
    struct node *nodes;
    size_t num_nodes, nodes_room;
    uint32_t free_nodes; /* list */
    struct pair *pairs;
    size_t num_pairs, pairs_room;
    uint32_t *slots; /* (num_slots, a power of 2) index of a pair + 1, linear probing; 0: free */
    size_t num_slots;
    struct queued *heap;
    size_t heap_count, heap_room;
    uint32_t *touched; /* pairs */
    size_t num_touched, touched_room;
    uint64_t *merges; /* keys */
    size_t num_merges, merges_room;
    char *joined; /* the bytes of a new token */
    size_t joined_room;
};

static void learner_free(struct learner *learner)
{
    void *const blocks[] = {learner->tokens,  learner->words,  learner->nodes,
                            learner->pairs,   learner->slots,  learner->heap,
                            learner->touched, learner->merges, learner->joined};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        memory_free(learner->host, blocks[i]);
}

/* ---- pairs -------------------------------------------------------------------------------------------- */

static size_t slot_of(const struct learner *learner, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    size_t slot = (hash >> 32) & (learner->num_slots - 1);
    while (learner->slots[slot] != 0 && learner->pairs[learner->slots[slot] - 1].key != key)
        slot = (slot + 1) & (learner->num_slots - 1);
    return slot;
}

/* Makes room for one more pair. */
static hashattn_status grow_pairs(struct learner *learner)
{
    TRY(memory_grow(learner->host, &learner->pairs, &learner->pairs_room, learner->num_pairs, 1,
                    sizeof *learner->pairs, "pairs of tokens"));
    if (2 * (learner->num_pairs + 1) <= learner->num_slots)
        return HASHATTN_OK;
    size_t num_slots = size_max(1 << 12, 2 * learner->num_slots);
    void *block;
    TRY(memory_new_zeroed(learner->host, num_slots, sizeof *learner->slots, "table of pairs", &block));
    memory_free(learner->host, learner->slots);
    learner->slots = block;
    learner->num_slots = num_slots;
    for (size_t i = 0; i < learner->num_pairs; i++)
        learner->slots[slot_of(learner, learner->pairs[i].key)] = (uint32_t)i + 1;
    return HASHATTN_OK;
}

static hashattn_status get_pair(struct learner *learner, uint32_t left, uint32_t right, struct pair **pair)
{
    TRY(grow_pairs(learner));
    uint64_t key = (uint64_t)left << 32 | right;
    size_t slot = slot_of(learner, key);
    if (learner->slots[slot] == 0) {
        learner->pairs[learner->num_pairs++] = (struct pair){.key = key, .words = NO_NODE};
        learner->slots[slot] = (uint32_t)learner->num_pairs;
    }
    *pair = &learner->pairs[learner->slots[slot] - 1];
    return HASHATTN_OK;
}

/* Adds a word to the list of a pair, unless it is the word added last. */
static hashattn_status list_word(struct learner *learner, struct pair *pair, uint32_t word)
{
    if (pair->words != NO_NODE && learner->nodes[pair->words].word == word)
        return HASHATTN_OK;
    uint32_t node = learner->free_nodes;
    if (node != NO_NODE) {
        learner->free_nodes = learner->nodes[node].next;
    } else {
        FAIL_IF(learner->num_nodes >= NO_NODE, learner->host, HASHATTN_INVALID,
                "the text has too many different words: more than %u pairs in words", NO_NODE);
        TRY(memory_grow(learner->host, &learner->nodes, &learner->nodes_room, learner->num_nodes, 1,
                        sizeof *learner->nodes, "words with a pair"));
        node = (uint32_t)learner->num_nodes++;
    }
    learner->nodes[node] = (struct node){word, pair->words};
    pair->words = node;
    return HASHATTN_OK;
}

/* ---- the heap: the largest count first, then the smallest pair ---------------------------------------- */

static bool is_before(const struct queued *a, const struct queued *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static hashattn_status push(struct learner *learner, uint32_t pair)
{
    TRY(memory_grow(learner->host, &learner->heap, &learner->heap_room, learner->heap_count, 1,
                    sizeof *learner->heap, "queue of pairs"));
    const struct queued entry = {learner->pairs[pair].count, learner->pairs[pair].key, pair};
    size_t at = learner->heap_count++;
    for (; at > 0 && is_before(&entry, &learner->heap[(at - 1) / 2]); at = (at - 1) / 2)
        learner->heap[at] = learner->heap[(at - 1) / 2];
    learner->heap[at] = entry;
    return HASHATTN_OK;
}

static struct queued pop(struct learner *learner)
{
    struct queued *heap = learner->heap;
    const struct queued top = heap[0], last = heap[--learner->heap_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < learner->heap_count) {
        child += child + 1 < learner->heap_count && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* ---- the beginning ------------------------------------------------------------------------------------ */

/* Special tokens, then one token per byte in the order of their characters. */
static hashattn_status add_first_tokens(struct learner *learner)
{
    static const char *const special[LEARN_SPECIAL] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    for (size_t i = 0; i < LEARN_SPECIAL; i++)
        TRY(vocabulary_add(learner->host, learner->vocabulary, (struct piece){special[i], strlen(special[i])},
                           i));
    for (int32_t c = 0; c <= 0x143; c++) {
        unsigned char byte;
        char text[4];
        if (byte_level_byte(c, &byte))
            TRY(vocabulary_add(learner->host, learner->vocabulary,
                               (struct piece){text, character_write(c, text)}, learner->vocabulary->num_ids));
    }
    return HASHATTN_OK;
}

/* Every word as the tokens of its bytes. */
static hashattn_status split_words(struct learner *learner, const struct word_counts *counts)
{
    uint32_t ids[256] = {0};
    void *block;
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        size_t size = character_write(byte_level_character((unsigned char)byte), text);
        vocabulary_find(learner->vocabulary, (struct piece){text, size}, &ids[byte]);
    }
    TRY(memory_new(learner->host, counts->num_bytes, sizeof *learner->tokens, "the tokens of words", &block));
    learner->tokens = block;
    for (size_t i = 0; i < counts->num_bytes; i++)
        learner->tokens[i] = ids[(unsigned char)counts->bytes[i]];
    TRY(memory_new(learner->host, counts->count, sizeof *learner->words, "words", &block));
    learner->words = block;
    learner->num_words = counts->count;
    for (size_t i = 0; i < counts->count; i++)
        learner->words[i] = (struct word){counts->list[i].start, counts->list[i].size, counts->list[i].count};
    return HASHATTN_OK;
}

static hashattn_status count_pairs(struct learner *learner)
{
    for (size_t w = 0; w < learner->num_words; w++) {
        const struct word *word = &learner->words[w];
        const uint32_t *tokens = learner->tokens + word->start;
        for (size_t i = 0; i + 1 < word->size; i++) {
            struct pair *pair;
            TRY(get_pair(learner, tokens[i], tokens[i + 1], &pair));
            pair->count += (int64_t)word->count;
            TRY(list_word(learner, pair, (uint32_t)w));
        }
    }
    for (size_t i = 0; i < learner->num_pairs; i++)
        TRY(push(learner, (uint32_t)i));
    return HASHATTN_OK;
}

/* ---- one merge ---------------------------------------------------------------------------------------- */

/* Changes the count of a pair in a word. */
static hashattn_status change(struct learner *learner, uint32_t left, uint32_t right, int64_t by,
                              uint32_t word)
{
    struct pair *pair;
    TRY(get_pair(learner, left, right, &pair));
    pair->count += by;
    if (by < 0)
        return HASHATTN_OK;
    if (!pair->touched) {
        TRY(memory_grow(learner->host, &learner->touched, &learner->touched_room, learner->num_touched, 1,
                        sizeof *learner->touched, "changed pairs"));
        learner->touched[learner->num_touched++] = (uint32_t)(pair - learner->pairs);
        pair->touched = true;
    }
    return list_word(learner, pair, word);
}

static hashattn_status merge_in_word(struct learner *learner, uint32_t index, uint32_t left, uint32_t right,
                                     uint32_t result)
{
    struct word *word = &learner->words[index];
    uint32_t *tokens = learner->tokens + word->start;
    int64_t count = (int64_t)word->count;
    size_t out = 0;
    for (size_t i = 0; i < word->size; i++, out++) {
        if (tokens[i] != left || i + 1 == word->size || tokens[i + 1] != right) {
            tokens[out] = tokens[i];
            continue;
        }
        if (out > 0) {
            TRY(change(learner, tokens[out - 1], left, -count, index));
            TRY(change(learner, tokens[out - 1], result, count, index));
        }
        if (i + 2 < word->size) {
            TRY(change(learner, right, tokens[i + 2], -count, index));
            TRY(change(learner, result, tokens[i + 2], count, index));
        }
        tokens[out] = result;
        i++;
    }
    word->size = (uint32_t)out;
    return HASHATTN_OK;
}

/* The id of the joined token, which is new unless other parts were joined to it before. */
static hashattn_status join(struct learner *learner, uint32_t left, uint32_t right, uint32_t *id)
{
    struct piece a = vocabulary_get(learner->vocabulary, left),
                 b = vocabulary_get(learner->vocabulary, right);
    TRY(memory_grow(learner->host, &learner->joined, &learner->joined_room, 0, a.size + b.size, 1,
                    "a token"));
    memcpy(learner->joined, a.bytes, a.size);
    memcpy(learner->joined + a.size, b.bytes, b.size);
    const struct piece token = {learner->joined, a.size + b.size};
    if (vocabulary_find(learner->vocabulary, token, id))
        return HASHATTN_OK;
    *id = (uint32_t)learner->vocabulary->num_ids;
    return vocabulary_add(learner->host, learner->vocabulary, token, *id);
}

static hashattn_status merge(struct learner *learner, uint32_t index)
{
    uint64_t key = learner->pairs[index].key;
    uint32_t left = (uint32_t)(key >> 32), right = (uint32_t)key, result;
    TRY(join(learner, left, right, &result));
    if (!learner->pairs[index].merged) {
        TRY(memory_grow(learner->host, &learner->merges, &learner->merges_room, learner->num_merges, 1,
                        sizeof *learner->merges, "merges"));
        learner->merges[learner->num_merges++] = key;
    }
    uint32_t node = learner->pairs[index].words;
    learner->pairs[index].merged = true;
    learner->pairs[index].words = NO_NODE;
    learner->pairs[index].count = 0;
    learner->num_touched = 0;
    while (node != NO_NODE) {
        const struct node visited = learner->nodes[node];
        TRY(merge_in_word(learner, visited.word, left, right, result));
        learner->nodes[node].next = learner->free_nodes;
        learner->free_nodes = node;
        node = visited.next;
    }
    /* In "aaa" the merge of the first pair also takes the second one away. */
    if (learner->pairs[index].count < 0)
        learner->pairs[index].count = 0;
    for (size_t i = 0; i < learner->num_touched; i++) {
        struct pair *pair = &learner->pairs[learner->touched[i]];
        pair->touched = false;
        if (pair->count > 0)
            TRY(push(learner, learner->touched[i]));
    }
    return HASHATTN_OK;
}

static hashattn_status learn(struct learner *learner, const struct learn_options *options)
{
    while (learner->vocabulary->count < options->vocab_size && learner->heap_count > 0) {
        const struct queued top = pop(learner);
        int64_t count = learner->pairs[top.pair].count;
        if (top.count != count) {
            if (count > 0)
                TRY(push(learner, top.pair));
            continue;
        }
        if (count < 1 || (uint64_t)count < options->min_frequency)
            break;
        TRY(merge(learner, top.pair));
        FAIL_IF(options->progress != NULL && learner->num_merges % 64 == 0 &&
                    options->progress(options->user, learner->vocabulary->count, options->vocab_size) != 0,
                learner->host, HASHATTN_INTERRUPTED, "stopped at %zu of %zu tokens",
                learner->vocabulary->count, options->vocab_size);
    }
    return HASHATTN_OK;
}

/* ---- the tokenizer ------------------------------------------------------------------------------------ */

static hashattn_status finish(struct learner *learner, struct tokenizer *tokenizer)
{
    struct host *host = learner->host;
    tokenizer->kind = TOKENIZER_BYTE_BPE;
    tokenizer->decoder = DECODER_BYTE_LEVEL;
    tokenizer->trim_offsets = true;
    TRY(bpe_init(host, &tokenizer->bpe, &tokenizer->vocabulary, learner->num_merges));
    for (size_t i = 0; i < learner->num_merges; i++)
        TRY(bpe_add(host, &tokenizer->bpe, &tokenizer->vocabulary,
                    vocabulary_get(&tokenizer->vocabulary, learner->merges[i] >> 32),
                    vocabulary_get(&tokenizer->vocabulary, (uint32_t)learner->merges[i])));
    for (uint32_t id = 0; id < LEARN_SPECIAL; id++) {
        const struct added_token token = {.content = vocabulary_get(&tokenizer->vocabulary, id),
                                          .id = id,
                                          .special = true,
                                          .lstrip = id == LEARN_SPECIAL - 1}; /* <mask> */
        TRY(tokenizer_add(host, tokenizer, &token));
    }
    added_tokens_sort(&tokenizer->raw);
    template_roberta(tokenizer->templates, 0, 2);
    return HASHATTN_OK;
}

hashattn_status learn_bpe(struct host *host, const struct word_counts *counts,
                          const struct learn_options *options, struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    *tokenizer = NULL;
    assert(options->vocab_size >= LEARN_LEAST && options->vocab_size <= TOKENIZER_MOST_IDS);
    TRY(tokenizer_new(host, &made));
    struct learner learner = {.host = host, .vocabulary = &made->vocabulary, .free_nodes = NO_NODE};
    hashattn_status status = HASHATTN_OK;
    TRY_DONE(add_first_tokens(&learner));
    TRY_DONE(split_words(&learner, counts));
    TRY_DONE(count_pairs(&learner));
    TRY_DONE(learn(&learner, options));
    TRY_DONE(finish(&learner, made));
done:
    learner_free(&learner);
    if (status != HASHATTN_OK)
        tokenizer_free(host, made);
    else
        *tokenizer = made;
    return status;
}
