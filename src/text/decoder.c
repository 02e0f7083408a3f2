/* Decoding: the tokens of ids, joined as the tokenizer says.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "text/byte_level.h"
#include "text/characters.h"
#include "text/tokenizer_parts.h"

static hashattn_status append(struct host *host, struct grown_text *text, const char *bytes, size_t size)
{
    TRY(memory_grow(host, &text->bytes, &text->capacity, text->size, size + 1, 1, "text"));
    if (size > 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return HASHATTN_OK;
}

/* The bytes that a token stands for; a token with a character that stands for none is its own text. */
static hashattn_status append_bytes(struct host *host, struct grown_text *text, struct piece token)
{
    const char *end = token.bytes + token.size;
    size_t before = text->size;
    for (const char *at = token.bytes; at < end;) {
        int32_t point;
        unsigned char byte;
        at += character_read(at, end, &point);
        if (!byte_level_byte(point, &byte)) {
            text->size = before;
            return append(host, text, token.bytes, token.size);
        }
        TRY(append(host, text, (const char *)&byte, 1));
    }
    return HASHATTN_OK;
}

/* Removes the spaces that BERT's decoder removes, from bytes `from` on: each rule of the list in turn. */
static void clean_up(struct grown_text *text, size_t from)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        size_t old = strlen(rules[i][0]), new = strlen(rules[i][1]), to = from;
        for (size_t at = from; at < text->size;) {
            if (text->size - at >= old && memcmp(text->bytes + at, rules[i][0], old) == 0) {
                memcpy(text->bytes + to, rules[i][1], new);
                to += new;
                at += old;
            } else {
                text->bytes[to++] = text->bytes[at++];
            }
        }
        text->size = to;
    }
}

static hashattn_status append_wordpiece(struct host *host, const struct tokenizer *tokenizer,
                                        struct grown_text *text, struct piece token, bool first)
{
    size_t prefix = strlen(tokenizer->decoder_prefix), before = text->size;
    if (!first && token.size >= prefix && memcmp(token.bytes, tokenizer->decoder_prefix, prefix) == 0)
        TRY(append(host, text, token.bytes + prefix, token.size - prefix));
    else {
        TRY(append(host, text, " ", first ? 0 : 1));
        TRY(append(host, text, token.bytes, token.size));
    }
    if (tokenizer->decoder_cleanup)
        clean_up(text, before);
    return HASHATTN_OK;
}

/* Replaces what is not UTF-8 by U+FFFD. */
static hashattn_status repair(struct host *host, struct grown_text *text)
{
    struct grown_text repaired = {.bytes = NULL};
    const char *at = text->bytes, *end = at + text->size;
    hashattn_status status = append(host, &repaired, "", 0);
    while (at < end && status == HASHATTN_OK) {
        int32_t point;
        size_t size = character_read(at, end, &point);
        if (point != CHARACTER_NONE) {
            status = append(host, &repaired, at, size);
        } else {
            size = character_broken(at, end);
            status = append(host, &repaired, "\xef\xbf\xbd", 3);
        }
        at += size;
    }
    memory_free(host, text->bytes);
    *text = repaired;
    return status;
}

/* The token of an id; of an added token that is found in normalized text, its normalized content. */
static struct piece token_of(const struct tokenizer *tokenizer, uint32_t id)
{
    struct piece token = tokenizer_token(tokenizer, id);
    if (token.bytes == NULL || !tokenizer->has_normalizer || !tokenizer->vocabulary.entries[id].added)
        return token;
    uint32_t number = tokenizer->vocabulary.entries[id].normalized;
    return number > 0 ? tokenizer->normalized.list[number - 1].content : token;
}

/* As the reference since version 0.23, which looks at the text: a special token is kept if it is found in
   normalized text and normalization changes it, unless the result is a special token too. */
static bool is_skipped(const struct tokenizer *tokenizer, uint32_t id, struct piece text)
{
    uint32_t same = id;
    if (tokenizer->vocabulary.entries[id].normalized > 0 && !tokenizer_find(tokenizer, text, &same))
        return false;
    return tokenizer_is_special(tokenizer, same);
}

static hashattn_status append_token(struct host *host, const struct tokenizer *tokenizer, struct piece token,
                                    bool first, struct grown_text *text)
{
    if (tokenizer->decoder == DECODER_BYTE_LEVEL)
        return append_bytes(host, text, token);
    if (tokenizer->decoder == DECODER_WORDPIECE)
        return append_wordpiece(host, tokenizer, text, token, first);
    TRY(append(host, text, " ", first ? 0 : 1));
    return append(host, text, token.bytes, token.size);
}

hashattn_status tokenizer_decode_token(struct host *host, const struct tokenizer *tokenizer, uint32_t id,
                                       bool first, struct grown_text *text)
{
    struct piece token = token_of(tokenizer, id);
    FAIL_IF(token.bytes == NULL, host, HASHATTN_INVALID, "id %u has no token, ids are 0 to %zu", id,
            tokenizer_num_ids(tokenizer) - 1);
    return is_skipped(tokenizer, id, token) ? HASHATTN_OK : append_token(host, tokenizer, token, first, text);
}

static hashattn_status decode(struct host *host, const struct tokenizer *tokenizer, const uint32_t *ids,
                              size_t count, bool skip_special, struct grown_text *text)
{
    bool first = true;
    TRY(append(host, text, "", 0));
    for (size_t i = 0; i < count; i++) {
        struct piece token = token_of(tokenizer, ids[i]);
        FAIL_IF(token.bytes == NULL, host, HASHATTN_INVALID,
                "id %u at position %zu has no token, ids are 0 to %zu", ids[i], i,
                tokenizer_num_ids(tokenizer) - 1);
        if (skip_special && is_skipped(tokenizer, ids[i], token))
            continue;
        TRY(append_token(host, tokenizer, token, first, text));
        first = false;
    }
    return tokenizer->decoder == DECODER_BYTE_LEVEL ? repair(host, text) : HASHATTN_OK;
}

hashattn_status tokenizer_decode(struct host *host, const struct tokenizer *tokenizer, const uint32_t *ids,
                                 size_t count, bool skip_special, char **text, size_t *size)
{
    struct grown_text decoded = {.bytes = NULL};
    hashattn_status status = decode(host, tokenizer, ids, count, skip_special, &decoded);
    *text = NULL;
    *size = 0;
    if (status != HASHATTN_OK) {
        memory_free(host, decoded.bytes);
        return status;
    }
    decoded.bytes[decoded.size] = '\0';
    *text = decoded.bytes;
    *size = decoded.size;
    return HASHATTN_OK;
}
