/* Tokens inside a word are the patterns of the rest, without their prefix.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/wordpiece.h"

#include <string.h>

hashattn_status wordpiece_init(struct host *host, struct wordpiece *wordpiece,
                               const struct vocabulary *vocabulary)
{
    size_t prefix = wordpiece->prefix_size;
    TRY(max_match_begin(host, &wordpiece->tokens, false, true));
    for (uint32_t id = 0; id < vocabulary->num_ids; id++) {
        struct piece token = vocabulary_get(vocabulary, id);
        if (token.bytes == NULL)
            continue;
        TRY(max_match_add(host, &wordpiece->tokens, false, token, id));
        if (token.size > prefix && memcmp(token.bytes, wordpiece->prefix, prefix) == 0)
            TRY(max_match_add(host, &wordpiece->tokens, true,
                              (struct piece){token.bytes + prefix, token.size - prefix}, id));
    }
    return max_match_finish(host, &wordpiece->tokens);
}

void wordpiece_free(struct host *host, struct wordpiece *wordpiece)
{
    max_match_free(host, &wordpiece->tokens);
}

static size_t count_characters(struct piece word)
{
    size_t count = 0;
    for (size_t i = 0; i < word.size; i++)
        count += ((unsigned char)word.bytes[i] & 0xc0) != 0x80;
    return count;
}

hashattn_status wordpiece_word(struct host *host, const struct wordpiece *wordpiece,
                               struct max_match_run *run, struct piece word, struct word_tokens *tokens)
{
    max_match_restart(run, 0);
    run->stuck = count_characters(word) > wordpiece->max_characters;
    TRY(max_match_read(host, &wordpiece->tokens, word, word.size, run));
    tokens->count = 0;
    TRY(word_tokens_grow(host, tokens, run->count + 1));
    for (size_t i = 0; i < run->count && !run->stuck; i++)
        tokens->list[tokens->count++] =
            (struct word_token){run->list[i].value, (uint32_t)run->list[i].begin, (uint32_t)run->list[i].end};
    if (run->stuck)
        tokens->list[tokens->count++] = (struct word_token){wordpiece->unknown, 0, (uint32_t)word.size};
    return HASHATTN_OK;
}
