/* The patterns split the text into tokens and bytes between them.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/added_tokens.h"

#include <string.h>

#include "base/memory.h"
#include "text/characters.h"

hashattn_status added_tokens_add(struct host *host, struct added_tokens *tokens,
                                 const struct added_token *token)
{
    FAIL_IF(token->content.size == 0, host, HASHATTN_BAD_FILE, "added token with id %u is empty", token->id);
    TRY(memory_grow(host, &tokens->list, &tokens->capacity, tokens->count, 1, sizeof *tokens->list,
                    "added tokens"));
    void *copy;
    TRY(memory_new(host, token->content.size, 1, "an added token", &copy));
    memcpy(copy, token->content.bytes, token->content.size);
    struct added_token *added = &tokens->list[tokens->count++];
    *added = *token;
    added->content.bytes = copy;
    return HASHATTN_OK;
}

hashattn_status added_tokens_finish(struct host *host, struct added_tokens *tokens)
{
    max_match_free(host, &tokens->patterns);
    TRY(max_match_begin(host, &tokens->patterns, true, false));
    for (size_t i = tokens->count; i > 0; i--) /* of equal patterns the first that is added stays */
        TRY(max_match_add(host, &tokens->patterns, false, tokens->list[i - 1].content, (uint32_t)(i - 1)));
    return max_match_finish(host, &tokens->patterns);
}

void added_tokens_free(struct host *host, struct added_tokens *tokens)
{
    for (size_t i = 0; i < tokens->count; i++)
        memory_free(host, (void *)(uintptr_t)tokens->list[i].content.bytes);
    memory_free(host, tokens->list);
    max_match_free(host, &tokens->patterns);
    *tokens = (struct added_tokens){.list = NULL};
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

/* A search through a text. */
struct search {
    struct piece text;
    size_t done;               /* end of the last match, with the white space that it took */
    size_t spaces, spaces_end; /* the white space that it took */
};

/* The match with the white space that the token takes. Empty: the token, which takes white space on the left,
   is inside that of the match before. */
static struct added_match strip(struct search *search, const struct added_token *token, size_t begin,
                                size_t end)
{
    const char *text = search->text.bytes, *last = text + search->text.size;
    size_t size;
    if (token->lstrip && begin < search->done)
        begin = search->done;
    while (token->lstrip && begin > search->done &&
           (flags_before(text, text + begin, &size) & CHARACTER_SPACE) != 0)
        begin -= size;
    if (token->rstrip && end >= search->spaces && end < search->spaces_end)
        end = search->spaces_end; /* inside white space that was measured before */
    size_t spaces = end;
    while (token->rstrip && text + end < last && (flags_at(text + end, last, &size) & CHARACTER_SPACE) != 0)
        end += size;
    if (end > spaces) {
        search->spaces = spaces;
        search->spaces_end = end;
    }
    if (begin < end)
        search->done = end;
    return (struct added_match){token, begin, end};
}

hashattn_status added_tokens_find(struct host *host, const struct added_tokens *tokens, struct piece text,
                                  struct added_matches *matches)
{
    struct search search = {.text = text};
    matches->count = 0;
    if (tokens->count == 0)
        return HASHATTN_OK;
    max_match_restart(&matches->run, 0);
    TRY(max_match_read(host, &tokens->patterns, text, text.size, &matches->run));
    TRY(memory_grow(host, &matches->list, &matches->capacity, 0, matches->run.count, sizeof *matches->list,
                    "added tokens of a text"));
    for (size_t i = 0; i < matches->run.count; i++) {
        const struct max_match_found *found = &matches->run.list[i];
        const struct added_token *token = &tokens->list[found->value];
        if (token->single_word && !is_word(text, found->begin, found->end))
            continue;
        struct added_match match = strip(&search, token, found->begin, found->end);
        if (match.begin < match.end)
            matches->list[matches->count++] = match;
    }
    return HASHATTN_OK;
}

void added_matches_free(struct host *host, struct added_matches *matches)
{
    memory_free(host, matches->list);
    max_match_run_free(host, &matches->run);
    *matches = (struct added_matches){.list = NULL};
}

/* ---- where a text may be cut --------------------------------------------------------------------------- */

void added_probe_restart(struct added_probe *probe, size_t at)
{
    max_match_restart(&probe->run, at);
    probe->passed = 0;
}

hashattn_status added_probe_move(struct host *host, const struct added_tokens *tokens, struct piece text,
                                 size_t at, struct added_probe *probe, bool *touches, size_t *end)
{
    struct max_match_run *run = &probe->run;
    *touches = false;
    if (tokens->count == 0)
        return HASHATTN_OK;
    if (probe->passed == run->count) /* the memory does not grow with the text */
        probe->passed = run->count = 0;
    TRY(max_match_read(host, &tokens->patterns, text, at + 1, run));
    for (; probe->passed < run->count && run->list[probe->passed].end < at; probe->passed++)
        *end = run->list[probe->passed].end;
    *touches = probe->passed < run->count && run->list[probe->passed].begin <= at;
    return HASHATTN_OK;
}

void added_probe_free(struct host *host, struct added_probe *probe)
{
    max_match_run_free(host, &probe->run);
    probe->passed = 0;
}
