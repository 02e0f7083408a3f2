/* A vocabulary by open addressing over FNV-1a, in tables at most half full. Counting (word_counts.h) costs
   one lookup per word of the text, and memory for every distinct word until the most frequent ones are
   chosen.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/words.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "io/utf8.h"

static const struct piece unknown = {"<unk>", 5}, line_end = {"<eos>", 5};

static bool is_same(struct piece a, struct piece b)
{
    return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

bool words_next(struct piece *rest, struct piece *word)
{
    const char *at = rest->bytes, *end = at + rest->size;
    while (at < end && is_space(*at))
        at++;
    word->bytes = at;
    while (at < end && !is_space(*at))
        at++;
    word->size = (size_t)(at - word->bytes);
    *rest = (struct piece){at, (size_t)(end - at)};
    return word->size > 0;
}

/* ---- the vocabulary ----------------------------------------------------------------------------------- */

void words_free(struct host *host, struct words *words)
{
    if (words == NULL)
        return;
    index_table_free(host, &words->table);
    memory_free(host, words->starts);
    memory_free(host, words->bytes);
    memory_free(host, words);
}

struct piece words_get(const struct words *words, size_t id)
{
    assert(id >= 1 && id <= words->count);
    size_t start = words->starts[id - 1];
    return (struct piece){words->bytes + start, words->starts[id] - start};
}

/* 0: the word is not there. */
static uint32_t look_up(const struct words *words, struct piece word, uint64_t hash)
{
    uint32_t index;
    for (size_t probes = 0; index_table_next(&words->table, hash, &probes, &index);)
        if (is_same(words_get(words, index + 1), word))
            return index + 1;
    return 0;
}

static uint64_t hash_of(const struct words *words, struct piece word)
{
    return hash_bytes(&words->table.key, word.bytes, word.size);
}

uint32_t words_find(const struct words *words, struct piece word)
{
    uint32_t id = look_up(words, word, hash_of(words, word));
    return id == 0 ? WORDS_UNKNOWN : id;
}

/* Allocates room for `count` words with `bytes` bytes in total; place_word fills it. */
static hashattn_status words_new(struct host *host, size_t count, size_t bytes, struct words **out)
{
    void *block;
    hashattn_status status;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "a vocabulary", &block));
    struct words *words = block;
    TRY_DONE(memory_new(host, bytes, 1, "the words", &block));
    words->bytes = block;
    TRY_DONE(memory_new_zeroed(host, count + 1, sizeof *words->starts, "places of the words", &block));
    words->starts = block;
    *out = words;
    return HASHATTN_OK;
done:
    words_free(host, words);
    return status;
}

/* *is_new is false if the word is there already. */
static hashattn_status place_word(struct host *host, struct words *words, struct piece word, bool *is_new)
{
    TRY(index_table_grow(host, &words->table));
    size_t start = words->starts[words->count];
    uint64_t hash = hash_of(words, word);
    *is_new = look_up(words, word, hash) == 0;
    if (!*is_new)
        return HASHATTN_OK;
    memcpy(words->bytes + start, word.bytes, word.size);
    index_table_add(&words->table, hash, (uint32_t)words->count);
    words->starts[++words->count] = start + word.size;
    return HASHATTN_OK;
}

/* ---- counting ----------------------------------------------------------------------------------------- */

hashattn_status words_add(struct host *host, struct word_counts *counts, struct piece text)
{
    struct lines lines = lines_open(text.bytes, text.size);
    struct piece line, word;
    hashattn_status status = HASHATTN_OK;
    while (status == HASHATTN_OK && lines_next(&lines, &line)) {
        status = utf8_check(host, line.bytes, line.size);
        while (status == HASHATTN_OK && words_next(&line, &word))
            if (word.size <= WORDS_LONGEST && !is_same(word, unknown) && !is_same(word, line_end))
                status = word_counts_add_word(host, counts, word);
    }
    if (status != HASHATTN_OK)
        lines_prefix(host, &lines);
    return status;
}

/* A counted word, for sorting. */
struct counted {
    struct piece word;
    uint64_t count;
};

static int compare(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    size_t size = x->word.size < y->word.size ? x->word.size : y->word.size;
    int order = memcmp(x->word.bytes, y->word.bytes, size);
    return order != 0 ? order : (x->word.size > y->word.size) - (x->word.size < y->word.size);
}

hashattn_status words_choose(struct host *host, const struct word_counts *counts, size_t most,
                             struct words **words)
{
    size_t found = counts->count, bytes = unknown.size + line_end.size;
    void *block;
    *words = NULL;
    assert(most >= 2 && most <= WORDS_MOST);
    TRY(memory_new(host, found, sizeof(struct counted), "counts of words", &block));
    struct counted *list = block;
    for (size_t i = 0; i < found; i++)
        list[i] = (struct counted){{counts->bytes + counts->list[i].start, counts->list[i].size},
                                   counts->list[i].count};
    if (found > 0)
        qsort(list, found, sizeof *list, compare);
    found = found < most - 2 ? found : most - 2;
    for (size_t i = 0; i < found; i++)
        bytes += list[i].word.size;
    hashattn_status status = words_new(host, found + 2, bytes, words);
    bool is_new;
    if (status == HASHATTN_OK)
        status = place_word(host, *words, unknown, &is_new);
    if (status == HASHATTN_OK)
        status = place_word(host, *words, line_end, &is_new);
    for (size_t i = 0; i < found && status == HASHATTN_OK; i++)
        status = place_word(host, *words, list[i].word, &is_new);
    memory_free(host, block);
    if (status != HASHATTN_OK) {
        words_free(host, *words);
        *words = NULL;
    }
    return status;
}

hashattn_status words_count(struct host *host, const char *text, size_t size, size_t most,
                            struct words **words)
{
    struct word_counts counts = {.bytes = NULL};
    *words = NULL;
    hashattn_status status = words_add(host, &counts, (struct piece){text, size});
    if (status == HASHATTN_OK)
        status = words_choose(host, &counts, most, words);
    word_counts_free(host, &counts);
    return status;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

hashattn_status words_save(struct host *host, const char *path, const struct words *words)
{
    struct file_writer writer;
    TRY(file_open_replacement(host, path, &writer));
    for (size_t id = 1; id <= words->count; id++) {
        struct piece word = words_get(words, id);
        file_write(&writer, word.bytes, word.size);
        file_write(&writer, "\n", 1);
    }
    return file_commit(host, &writer);
}

static hashattn_status add_line(struct host *host, struct words *words, size_t count, struct piece line)
{
    struct piece rest = line, word;
    FAIL_IF(words->count == count, host, HASHATTN_BAD_FILE, "more than the %zu words of the model", count);
    FAIL_IF(!words_next(&rest, &word) || word.size != line.size, host, HASHATTN_BAD_FILE,
            "a line is one word, without white space");
    FAIL_IF(word.size > WORDS_LONGEST, host, HASHATTN_BAD_FILE, "the word has %zu bytes, allowed are %d",
            word.size, WORDS_LONGEST);
    TRY(utf8_check(host, word.bytes, word.size));
    FAIL_IF(words->count < 2 && !is_same(word, words->count == 0 ? unknown : line_end), host,
            HASHATTN_BAD_FILE, "the first two words are <unk> and <eos>");
    bool is_new;
    TRY(place_word(host, words, word, &is_new));
    FAIL_IF(!is_new, host, HASHATTN_BAD_FILE, "the word is on line %d too", (int)words_find(words, word));
    return HASHATTN_OK;
}

hashattn_status words_parse(struct host *host, const char *text, size_t size, size_t count,
                            struct words **out)
{
    struct lines lines = lines_open(text, size);
    struct piece line;
    struct words *words;
    *out = NULL;
    assert(count >= 2 && count <= WORDS_MOST);
    TRY(words_new(host, count, size, &words));
    hashattn_status status = HASHATTN_OK;
    while (status == HASHATTN_OK && lines_next(&lines, &line))
        status = add_line(host, words, count, line);
    if (status != HASHATTN_OK)
        lines_prefix(host, &lines);
    else if (words->count != count)
        status = host_fail(host, HASHATTN_BAD_FILE, "%zu words, the model has %zu", words->count, count);
    if (status != HASHATTN_OK)
        words_free(host, words);
    else
        *out = words;
    return status;
}

hashattn_status words_load(struct host *host, const char *path, size_t count, struct words **words)
{
    char *text;
    size_t size;
    *words = NULL;
    TRY(file_read_regular(host, path, count * (WORDS_LONGEST + 2) + 3, &text, &size));
    hashattn_status status = words_parse(host, text, size, count, words);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    memory_free(host, text);
    return status;
}
