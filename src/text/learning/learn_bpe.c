/* Pairs have counts and lists of the places where they occur; a heap orders them. A merge visits these places
   only and changes the counts of the pairs beside them, so all merges together cost bytes * log bytes,
   however long a word is. Only the last heap entry of a pair is valid. If the count has fallen since, the
   entry is put back when it reaches the top.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/learning/learn_bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/byte_level.h"
#include "text/characters.h"
#include "text/tokenizer_parts.h"

#define NO_NODE  UINT32_MAX
#define NO_TOKEN UINT32_MAX

struct place { /* of a pair: where its first token begins, and in which word */
    uint32_t at, word;
};

struct node { /* of the list of places of a pair */
    struct place place;
    uint32_t next;
};

struct pair {
    uint32_t left, right;
    int64_t count, queued; /* queued: count of the entry of the heap that counts */
    uint32_t places;       /* first node; the pair may be gone from a place */
    bool touched;          /* its count has grown in this merge */
    bool merged;
};

struct queued {
    int64_t count;
    uint32_t left, right, pair;
};

struct learner {
    struct host *host;
    struct vocabulary *vocabulary;
    const struct word_counts *counts;
    uint32_t *tokens; /* (bytes of all words) the token that begins at a byte; NO_TOKEN: none does */
    uint32_t *sizes;  /* (the same) bytes of a token, at its first and at its last byte */
    struct node *nodes;
    size_t num_nodes, nodes_capacity;
    uint32_t free_nodes; /* list */
    struct pair *pairs;
    size_t num_pairs, pairs_capacity;
    struct index_table table; /* indices of pairs */
    struct queued *heap;
    size_t heap_count, heap_capacity;
    uint32_t *touched; /* pairs */
    size_t num_touched, touched_capacity;
    struct place *places; /* of one pair */
    size_t places_capacity;
    uint32_t *merges; /* pairs */
    size_t num_merges, merges_capacity;
    char *joined; /* the bytes of a new token */
    size_t joined_capacity;
};

static void learner_free(struct learner *learner)
{
    void *const blocks[] = {learner->tokens, learner->sizes,   learner->nodes,  learner->pairs, learner->heap,
                            learner->places, learner->touched, learner->merges, learner->joined};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        memory_free(learner->host, blocks[i]);
    index_table_free(learner->host, &learner->table);
}

/* ---- pairs -------------------------------------------------------------------------------------------- */

static hashattn_status get_pair(struct learner *learner, uint32_t left, uint32_t right, struct pair **pair)
{
    uint32_t index;
    TRY(index_table_grow(learner->host, &learner->table));
    uint64_t hash = hash_pair(&learner->table.key, left, right);
    for (size_t probes = 0; index_table_next(&learner->table, hash, &probes, &index);) {
        *pair = &learner->pairs[index];
        if ((*pair)->left == left && (*pair)->right == right)
            return HASHATTN_OK;
    }
    TRY(memory_grow(learner->host, &learner->pairs, &learner->pairs_capacity, learner->num_pairs, 1,
                    sizeof *learner->pairs, "pairs of tokens"));
    index_table_add(&learner->table, hash, (uint32_t)learner->num_pairs);
    *pair = &learner->pairs[learner->num_pairs++];
    **pair = (struct pair){.left = left, .right = right, .places = NO_NODE};
    return HASHATTN_OK;
}

static hashattn_status list_place(struct learner *learner, struct pair *pair, struct place place)
{
    uint32_t node = learner->free_nodes;
    if (node != NO_NODE) {
        learner->free_nodes = learner->nodes[node].next;
    } else {
        FAIL_IF(learner->num_nodes >= NO_NODE, learner->host, HASHATTN_INVALID,
                "the text has too many different words: more than %u pairs in words", NO_NODE);
        TRY(memory_grow(learner->host, &learner->nodes, &learner->nodes_capacity, learner->num_nodes, 1,
                        sizeof *learner->nodes, "places of pairs"));
        node = (uint32_t)learner->num_nodes++;
    }
    learner->nodes[node] = (struct node){place, pair->places};
    pair->places = node;
    return HASHATTN_OK;
}

/* ---- the heap: the largest count first, then the smallest pair ---------------------------------------- */

static bool is_before(const struct queued *a, const struct queued *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

/* Puts a pair into the heap, unless it is there with this count. */
static hashattn_status push(struct learner *learner, uint32_t index)
{
    struct pair *pair = &learner->pairs[index];
    if (pair->queued == pair->count)
        return HASHATTN_OK;
    TRY(memory_grow(learner->host, &learner->heap, &learner->heap_capacity, learner->heap_count, 1,
                    sizeof *learner->heap, "queue of pairs"));
    pair->queued = pair->count;
    const struct queued entry = {pair->count, pair->left, pair->right, index};
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
    FAIL_IF(counts->num_bytes >= NO_NODE, learner->host, HASHATTN_INVALID,
            "the different words have %zu bytes, at most %u are allowed", counts->num_bytes, NO_NODE - 1);
    TRY(memory_new(learner->host, counts->num_bytes, sizeof *learner->tokens, "the tokens of words", &block));
    learner->tokens = block;
    TRY(memory_new(learner->host, counts->num_bytes, sizeof *learner->sizes, "the tokens of words", &block));
    learner->sizes = block;
    for (size_t i = 0; i < counts->num_bytes; i++) {
        learner->tokens[i] = ids[(unsigned char)counts->bytes[i]];
        learner->sizes[i] = 1;
    }
    return HASHATTN_OK;
}

static hashattn_status count_pairs(struct learner *learner)
{
    for (size_t w = 0; w < learner->counts->count; w++) {
        const struct word_count *word = &learner->counts->list[w];
        for (size_t at = word->start; at + 1 < word->start + word->size; at++) {
            struct pair *pair;
            TRY(get_pair(learner, learner->tokens[at], learner->tokens[at + 1], &pair));
            pair->count += (int64_t)word->count;
            TRY(list_place(learner, pair, (struct place){(uint32_t)at, (uint32_t)w}));
        }
    }
    for (size_t i = 0; i < learner->num_pairs; i++)
        TRY(push(learner, (uint32_t)i));
    return HASHATTN_OK;
}

/* ---- one merge ---------------------------------------------------------------------------------------- */

/* Changes the count of a pair by the one at a place. */
static hashattn_status change(struct learner *learner, uint32_t left, uint32_t right, int64_t by,
                              struct place place)
{
    struct pair *pair;
    TRY(get_pair(learner, left, right, &pair));
    pair->count += by;
    if (by < 0)
        return HASHATTN_OK;
    if (!pair->touched) {
        TRY(memory_grow(learner->host, &learner->touched, &learner->touched_capacity, learner->num_touched, 1,
                        sizeof *learner->touched, "changed pairs"));
        learner->touched[learner->num_touched++] = (uint32_t)(pair - learner->pairs);
        pair->touched = true;
    }
    return list_place(learner, pair, place);
}

/* Merges the pair at a place, if it is still there. */
static hashattn_status merge_at(struct learner *learner, struct place place, uint32_t left, uint32_t right,
                                uint32_t result)
{
    const struct word_count *word = &learner->counts->list[place.word];
    uint32_t *tokens = learner->tokens, *sizes = learner->sizes;
    size_t at = place.at, begin = word->start, end = begin + word->size;
    int64_t count = (int64_t)word->count;
    if (tokens[at] != left)
        return HASHATTN_OK;
    size_t second = at + sizes[at];
    if (second >= end || tokens[second] != right)
        return HASHATTN_OK;
    size_t after = second + sizes[second];
    if (at > begin) {
        const struct place before = {place.at - sizes[at - 1], place.word};
        TRY(change(learner, tokens[before.at], left, -count, before));
        TRY(change(learner, tokens[before.at], result, count, before));
    }
    if (after < end) {
        TRY(change(learner, right, tokens[after], -count, place));
        TRY(change(learner, result, tokens[after], count, place));
    }
    tokens[at] = result;
    tokens[second] = NO_TOKEN;
    sizes[at] = sizes[after - 1] = (uint32_t)(after - at);
    return HASHATTN_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Moves the places of a pair from its list to an array. Those of a token with itself may overlap, so they are
   sorted: the leftmost of a word is merged first. */
static hashattn_status take_places(struct learner *learner, struct pair *pair, size_t *count)
{
    *count = 0;
    for (uint32_t node = pair->places, next; node != NO_NODE; node = next) {
        next = learner->nodes[node].next;
        TRY(memory_grow(learner->host, &learner->places, &learner->places_capacity, *count, 1,
                        sizeof *learner->places, "places of a pair"));
        learner->places[(*count)++] = learner->nodes[node].place;
        learner->nodes[node].next = learner->free_nodes;
        learner->free_nodes = node;
    }
    pair->places = NO_NODE;
    if (pair->left == pair->right && *count > 1)
        qsort(learner->places, *count, sizeof *learner->places, by_place);
    return HASHATTN_OK;
}

/* The id of the joined token, which is new unless other parts were joined to it before. */
static hashattn_status join(struct learner *learner, uint32_t left, uint32_t right, uint32_t *id)
{
    struct piece a = vocabulary_get(learner->vocabulary, left),
                 b = vocabulary_get(learner->vocabulary, right);
    TRY(memory_grow(learner->host, &learner->joined, &learner->joined_capacity, 0, a.size + b.size, 1,
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
    const uint32_t left = learner->pairs[index].left, right = learner->pairs[index].right;
    uint32_t result;
    size_t count;
    TRY(join(learner, left, right, &result));
    if (!learner->pairs[index].merged) {
        TRY(memory_grow(learner->host, &learner->merges, &learner->merges_capacity, learner->num_merges, 1,
                        sizeof *learner->merges, "merges"));
        learner->merges[learner->num_merges++] = index;
    }
    TRY(take_places(learner, &learner->pairs[index], &count));
    learner->pairs[index].merged = true;
    learner->pairs[index].count = learner->pairs[index].queued = 0;
    learner->num_touched = 0;
    for (size_t i = 0; i < count; i++)
        TRY(merge_at(learner, learner->places[i], left, right, result));
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
        if (top.count != learner->pairs[top.pair].queued)
            continue; /* another entry counts */
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
                    vocabulary_get(&tokenizer->vocabulary, learner->pairs[learner->merges[i]].left),
                    vocabulary_get(&tokenizer->vocabulary, learner->pairs[learner->merges[i]].right)));
    for (uint32_t id = 0; id < LEARN_SPECIAL; id++) {
        const struct added_token token = {.content = vocabulary_get(&tokenizer->vocabulary, id),
                                          .id = id,
                                          .special = true,
                                          .lstrip = id == LEARN_SPECIAL - 1}; /* <mask> */
        TRY(tokenizer_add(host, tokenizer, &token));
    }
    TRY(added_tokens_finish(host, &tokenizer->raw));
    template_roberta(tokenizer->templates, 0, 2);
    return HASHATTN_OK;
}

hashattn_status learn_bpe(struct host *host, const struct word_counts *counts,
                          const struct learn_options *options, struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    *tokenizer = NULL;
    assert(options->vocab_size >= LEARN_LEAST && options->vocab_size <= VOCABULARY_MOST_IDS);
    TRY(tokenizer_new(host, &made));
    struct learner learner = {
        .host = host, .vocabulary = &made->vocabulary, .counts = counts, .free_nodes = NO_NODE};
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
