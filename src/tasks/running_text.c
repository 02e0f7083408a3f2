/* Ids of texts in memory, and their bytes.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/running_text.h"

#include <string.h>

#include "base/memory.h"
#include "io/utf8.h"

hashattn_status running_words(struct host *host, const struct words *words, struct piece line, id_taker *take,
                              void *context)
{
    struct piece word;
    TRY(utf8_check(host, line.bytes, line.size));
    while (words_next(&line, &word))
        TRY(take(host, context, words_find(words, word)));
    return HASHATTN_OK;
}

/* Removes the next line from the front of *rest, with its line feed. */
static struct piece next_line(struct piece *rest)
{
    const char *feed = memchr(rest->bytes, '\n', rest->size);
    size_t size = feed == NULL ? rest->size : (size_t)(feed - rest->bytes) + 1;
    struct piece line = {rest->bytes, size};
    *rest = (struct piece){rest->bytes + size, rest->size - size};
    return line;
}

hashattn_status running_tokens(struct host *host, struct encoder *encoder, struct piece lines, id_taker *take,
                               void *context)
{
    const struct encode_options options = {.special_tokens = false};
    while (lines.size > 0) {
        struct encoding encoding;
        TRY(encoder_encode(encoder, next_line(&lines), &options, &encoding));
        for (size_t i = 0; i < encoding.count; i++)
            TRY(take(host, context, encoding.ids[i]));
    }
    return HASHATTN_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

struct id_list {
    uint32_t *ids;
    size_t count, capacity;
};

static hashattn_status add_id(struct host *host, void *context, uint32_t id)
{
    struct id_list *list = context;
    TRY(memory_grow(host, &list->ids, &list->capacity, list->count, 1, sizeof id, "the ids of a text"));
    list->ids[list->count++] = id;
    return HASHATTN_OK;
}

static hashattn_status read_words(struct host *host, const struct words *words, struct piece text,
                                  struct id_list *list)
{
    size_t wrong = utf8_first_error(text.bytes, text.size);
    FAIL_IF(wrong < text.size, host, HASHATTN_INVALID,
            "byte %zu (0x%02x) is not UTF-8, a text of words must be", wrong,
            (unsigned)(unsigned char)text.bytes[wrong]);
    while (text.size > 0) {
        struct piece line = next_line(&text);
        bool ends = line.bytes[line.size - 1] == '\n';
        line.size -= ends;
        TRY(running_words(host, words, line, add_id, list));
        if (ends)
            TRY(add_id(host, list, WORDS_END));
    }
    return HASHATTN_OK;
}

static hashattn_status read_tokens(struct host *host, const struct tokenizer *tokenizer, struct piece text,
                                   struct id_list *list)
{
    struct encoder *encoder;
    TRY(encoder_new(host, tokenizer, &encoder));
    hashattn_status status = running_tokens(host, encoder, text, add_id, list);
    encoder_free(encoder);
    return status;
}

static hashattn_status read_ids(struct host *host, const struct task_facts *facts, struct piece text,
                                struct id_list *list)
{
    if (facts->tokenizer != NULL)
        return read_tokens(host, facts->tokenizer, text, list);
    if (facts->words != NULL)
        return read_words(host, facts->words, text, list);
    for (size_t i = 0; i < text.size; i++)
        TRY(add_id(host, list, RUNNING_FIRST_ID + (unsigned char)text.bytes[i]));
    return HASHATTN_OK;
}

hashattn_status running_text_read(struct host *host, const struct task_facts *facts, struct piece text,
                                  uint32_t **ids, size_t *count, size_t *unknown)
{
    struct id_list list = {.ids = NULL};
    hashattn_status status = read_ids(host, facts, text, &list);
    if (status == HASHATTN_OK && list.count == 0)
        status = read_ids(host, facts, (struct piece){"\n", 1}, &list);
    *ids = NULL;
    *count = *unknown = 0;
    if (status != HASHATTN_OK) {
        memory_free(host, list.ids);
        return status;
    }
    for (size_t i = 0; facts->words != NULL && i < list.count; i++)
        *unknown += list.ids[i] == WORDS_UNKNOWN;
    *ids = list.ids;
    *count = list.count;
    return HASHATTN_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static hashattn_status add_bytes(struct host *host, struct grown_text *text, const char *bytes, size_t size)
{
    TRY(memory_grow(host, &text->bytes, &text->capacity, text->size, size, 1, "text"));
    if (size > 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return HASHATTN_OK;
}

hashattn_status running_text_write(struct host *host, const struct task_facts *facts, uint32_t before,
                                   uint32_t id, struct grown_text *text)
{
    if (facts->tokenizer != NULL)
        return tokenizer_decode_token(host, facts->tokenizer, id, false, text);
    if (facts->words == NULL)
        return add_bytes(host, text, (const char[]){(char)(unsigned char)(id - RUNNING_FIRST_ID)}, 1);
    if (id == WORDS_END)
        return add_bytes(host, text, "\n", 1);
    struct piece word = words_get(facts->words, id);
    if (before != WORDS_END)
        TRY(add_bytes(host, text, " ", 1));
    return add_bytes(host, text, word.bytes, word.size);
}
