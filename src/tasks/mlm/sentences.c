/* One loop over the bytes; a boundary is examined at the first byte after white space.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/sentences.h"

#include <string.h>

#include "base/memory.h"

void sentences_free(struct host *host, struct sentences *sentences)
{
    memory_free(host, sentences->text);
    memory_free(host, sentences->ends);
    *sentences = (struct sentences){.text = NULL};
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes of the closing quote or bracket that the text ends with; 0: none. */
static size_t closer(const char *text, size_t size)
{
    static const char *const closers[] = {"\"", "'", ")", "]", "\xe2\x80\x99", "\xe2\x80\x9d", "\xc2\xbb"};
    for (size_t i = 0; i < sizeof closers / sizeof *closers; i++) {
        size_t length = strlen(closers[i]);
        if (size > length && memcmp(text + size - length, closers[i], length) == 0)
            return length;
    }
    return 0;
}

static bool ends_with_stop(const char *text, size_t size)
{
    for (size_t length; (length = closer(text, size)) > 0;)
        size -= length;
    return size > 0 && (text[size - 1] == '.' || text[size - 1] == '!' || text[size - 1] == '?');
}

hashattn_status sentences_split(struct host *host, struct piece text, bool wrapped,
                                struct sentences *sentences)
{
    size_t used = 0, feeds = 0, spaces = 0, enough = wrapped ? 2 : 1;
    sentences->count = 0;
    TRY(memory_grow(host, &sentences->text, &sentences->text_capacity, 0, text.size, 1, "sentences"));
    char *out = sentences->text;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (is_space(c)) {
            spaces++;
            feeds += c == '\n';
            continue;
        }
        if (spaces > 0 && used > 0) {
            if (feeds >= enough || (!(c >= 'a' && c <= 'z') && ends_with_stop(out, used))) {
                TRY(memory_grow(host, &sentences->ends, &sentences->ends_capacity, sentences->count, 2,
                                sizeof *sentences->ends, "ends of sentences"));
                sentences->ends[sentences->count++] = used;
            }
            out[used++] = ' ';
        }
        spaces = feeds = 0;
        out[used++] = c;
    }
    if (used == 0)
        return HASHATTN_OK;
    TRY(memory_grow(host, &sentences->ends, &sentences->ends_capacity, sentences->count, 1,
                    sizeof *sentences->ends, "ends of sentences"));
    sentences->ends[sentences->count++] = used;
    return HASHATTN_OK;
}
