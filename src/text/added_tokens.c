/* A sorted list is searched byte by byte: each byte of the text narrows the range of tokens that begin alike.
   Texts without a first byte of a token cost one table look-up per byte.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/characters.h"

hashattn_status added_tokens_add(struct host *host, struct added_tokens *tokens,
                                 const struct added_token *token)
{
    FAIL_IF(token->content.size == 0, host, HASHATTN_BAD_FILE, "added token with id %u is empty", token->id);
    TRY(memory_grow(host, &tokens->list, &tokens->room, tokens->count, 1, sizeof *tokens->list,
                    "added tokens"));
    void *copy;
    TRY(memory_new(host, token->content.size, 1, "an added token", &copy));
    memcpy(copy, token->content.bytes, token->content.size);
    struct added_token *added = &tokens->list[tokens->count++];
    *added = *token;
    added->content.bytes = copy;
    tokens->longest = size_max(tokens->longest, token->content.size);
    tokens->begins[(unsigned char)token->content.bytes[0]] = true;
    return HASHATTN_OK;
}

static int compare(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    size_t size = size_min(x->content.size, y->content.size);
    int order = memcmp(x->content.bytes, y->content.bytes, size);
    return order != 0 ? order : (x->content.size > y->content.size) - (x->content.size < y->content.size);
}

void added_tokens_sort(struct added_tokens *tokens)
{
    if (tokens->count > 1)
        qsort(tokens->list, tokens->count, sizeof *tokens->list, compare);
}

void added_tokens_free(struct host *host, struct added_tokens *tokens)
{
    for (size_t i = 0; i < tokens->count; i++)
        memory_free(host, (void *)(uintptr_t)tokens->list[i].content.bytes);
    memory_free(host, tokens->list);
    *tokens = (struct added_tokens){.list = NULL};
}

/* The first token of [first, last), which begin alike for `depth` bytes, whose next byte is `byte` or more.
 */
static size_t lower_bound(const struct added_tokens *tokens, size_t first, size_t last, size_t depth,
                          int byte)
{
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        struct piece content = tokens->list[middle].content;
        int next = depth < content.size ? (unsigned char)content.bytes[depth] : -1;
        if (next < byte)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* The longest token at `at`; NULL if there is none. */
static const struct added_token *longest_at(const struct added_tokens *tokens, const char *at,
                                            const char *end)
{
    const struct added_token *found = NULL;
    size_t first = 0, last = tokens->count;
    for (size_t depth = 0; at + depth < end && first < last; depth++) {
        int byte = (unsigned char)at[depth];
        first = lower_bound(tokens, first, last, depth, byte);
        last = lower_bound(tokens, first, last, depth, byte + 1);
        if (first < last && tokens->list[first].content.size == depth + 1)
            found = &tokens->list[first];
    }
    return found;
}

static unsigned flags_at(const char *at, const char *end, size_t *size)
{
    int32_t point;
    *size = character_read(at, end, &point);
    return character_flags(point);
}

/* The flags of the character that ends at `at`. */
static unsigned flags_before(const char *begin, const char *at, size_t *size)
{
    const char *first = at - 1;
    while (first > begin && at - first < 4 && ((unsigned char)*first & 0xc0) == 0x80)
        first--;
    int32_t point;
    if (character_read(first, at, &point) == (size_t)(at - first)) {
        *size = (size_t)(at - first);
        return character_flags(point);
    }
    *size = 1; /* not UTF-8 */
    return 0;
}

static bool is_word(struct piece text, size_t begin, size_t end)
{
    const char *last = text.bytes + text.size;
    size_t size;
    bool before = begin > 0 && (flags_before(text.bytes, text.bytes + begin, &size) & CHARACTER_WORD) != 0;
    bool after = end < text.size && (flags_at(text.bytes + end, last, &size) & CHARACTER_WORD) != 0;
    return !before && !after;
}

bool added_tokens_next(const struct added_tokens *tokens, struct piece text, struct added_search *search,
                       struct added_match *match)
{
    if (tokens->count == 0)
        return false;
    const char *last = text.bytes + text.size;
    size_t size;
    for (size_t begin = search->next; begin < text.size; begin++) {
        if (!tokens->begins[(unsigned char)text.bytes[begin]])
            continue;
        const struct added_token *token = longest_at(tokens, text.bytes + begin, last);
        if (token == NULL)
            continue;
        size_t end = begin + token->content.size, low = begin;
        search->next = end;
        if (token->single_word && !is_word(text, begin, end)) {
            begin = end - 1; /* the search goes on after it */
            continue;
        }
        while (token->lstrip && low > search->done &&
               (flags_before(text.bytes, text.bytes + low, &size) & CHARACTER_SPACE) != 0)
            low -= size;
        while (token->rstrip && end < text.size &&
               (flags_at(text.bytes + end, last, &size) & CHARACTER_SPACE) != 0)
            end += size;
        *match = (struct added_match){token, low, end};
        search->done = end;
        return true;
    }
    return false;
}

bool added_tokens_touch(const struct added_tokens *tokens, struct piece text, size_t at)
{
    size_t first = at > tokens->longest ? at - tokens->longest : 0;
    for (size_t begin = first; begin <= at && begin < text.size && tokens->count > 0; begin++) {
        if (!tokens->begins[(unsigned char)text.bytes[begin]])
            continue;
        const struct added_token *token = longest_at(tokens, text.bytes + begin, text.bytes + text.size);
        if (token != NULL && begin + token->content.size >= at)
            return true;
    }
    return false;
}
