/* One encoder per reader; words and bytes need none.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/tokens.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "tasks/words.h"
#include "text/learning/learn_bpe.h"

const char *const token_kinds[] = {"bpe", "words", "bytes", NULL};
const char *const text_cuts[] = {"end", "middle", NULL};

/* ---- learning ------------------------------------------------------------------------------------------ */

size_t tokens_usual_len(const struct token_choice *choice)
{
    return choice->kind == TOKENS_BYTES ? 4096 : 1024;
}

hashattn_status tokens_check(struct host *host, const struct token_choice *choice)
{
    FAIL_IF(
        choice->given != NULL && choice->kind != TOKENS_BPE, host, HASHATTN_INVALID,
        "`tokens` is %s, but the stored model has a tokenizer of its own, which determines its ids: leave "
        "the option out",
        token_kinds[choice->kind]);
    return HASHATTN_OK;
}

hashattn_status tokens_count(struct host *host, const struct token_choice *choice, struct piece text,
                             struct word_counts *counts)
{
    if (choice->given != NULL || choice->kind == TOKENS_BYTES)
        return HASHATTN_OK;
    return choice->kind == TOKENS_WORDS ? words_add(host, counts, text) : word_counts_add(host, counts, text);
}

static hashattn_status learn_tokenizer(struct host *host, const struct token_choice *choice,
                                       const struct word_counts *counts, struct task_facts *facts)
{
    enum { LEAST_COUNT = 2 }; /* as `tokenizer train` by default */
    const struct learn_options options = {.vocab_size = choice->vocab_size, .min_frequency = LEAST_COUNT};
    struct tokenizer *tokenizer = choice->given;
    if (tokenizer == NULL)
        TRY(learn_bpe(host, counts, &options, &tokenizer));
    facts->tokenizer = tokenizer;
    facts->num_tokens = facts->vocab_size = tokenizer_num_ids(tokenizer);
    return HASHATTN_OK;
}

hashattn_status tokens_learn(struct host *host, const struct token_choice *choice,
                             const struct word_counts *counts, struct task_facts *facts)
{
    if (choice->given != NULL || choice->kind == TOKENS_BPE)
        return learn_tokenizer(host, choice, counts, facts);
    if (choice->kind == TOKENS_BYTES) {
        facts->bytes = true;
        facts->vocab_size = TOKENS_BYTES_VOCAB;
        return HASHATTN_OK;
    }
    TRY(words_choose(host, counts, size_min(choice->vocab_size, WORDS_MOST), &facts->words));
    facts->num_words = facts->words->count;
    facts->vocab_size = facts->num_words + 1;
    return HASHATTN_OK;
}

hashattn_status tokens_pair_segments(struct host *host, const struct token_choice *choice,
                                     struct task_facts *facts)
{
    const struct encode_options options = {.special_tokens = true};
    const struct piece text = {"a", 1};
    struct encoder *encoder;
    struct encoding encoding;
    facts->num_segments = choice->given == NULL ? 2 : 0;
    if (choice->given == NULL)
        return HASHATTN_OK;
    TRY(encoder_new(host, choice->given, &encoder));
    hashattn_status status = encoder_encode_pair(encoder, text, text, &options, &encoding);
    for (size_t i = 0; status == HASHATTN_OK && i < encoding.count; i++)
        if (encoding.segments[i] > 0)
            facts->num_segments = 2;
    encoder_free(encoder);
    return status;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

hashattn_status text_encoder_open(struct host *host, const struct task_facts *facts,
                                  struct text_encoder *texts)
{
    *texts = (struct text_encoder){.facts = facts};
    if (facts->tokenizer == NULL || !tokenizer_role(facts->tokenizer, TOKEN_END, &texts->end))
        texts->end = TOKENS_NO_END;
    return facts->tokenizer == NULL ? HASHATTN_OK : encoder_new(host, facts->tokenizer, &texts->encoder);
}

void text_encoder_close(struct text_encoder *texts)
{
    encoder_free(texts->encoder);
    texts->encoder = NULL;
}

static const struct piece line_feed = {"\n", 1};

/* Of `total` tokens of a text those before `head` and from `tail` on are kept. */
struct kept {
    size_t head, tail, total;
};
static struct kept kept_of(struct text_limit limit, size_t total)
{
    size_t most = limit.most;
    size_t head = total <= most ? total : limit.cut == CUT_MIDDLE ? (most + 3) / 4 : most;
    return (struct kept){head, total <= most ? total : total - (most - head), total};
}

static struct text_limit limit_of(const struct text_encoder *texts)
{
    return (struct text_limit){texts->facts->max_len, texts->cut};
}

static void write_bytes(const struct text_encoder *texts, struct piece text, struct token_row *tokens)
{
    text = text.size == 0 ? line_feed : text;
    const struct kept kept = kept_of(limit_of(texts), text.size);
    tokens->count = 0;
    for (size_t i = 0; i < text.size; i = i + 1 == kept.head ? kept.tail : i + 1)
        tokens->ids[tokens->count++] = 1u + (unsigned char)text.bytes[i];
    tokens->cut |= tokens->count < text.size;
}

/* Counts the words of a text, with an <eos> for each line, up to `limit`; writes those that are kept. */
static size_t each_word(const struct words *words, struct piece text, size_t limit, const struct kept *kept,
                        struct token_row *tokens)
{
    struct lines lines = lines_open(text.bytes, text.size);
    struct piece line, word;
    size_t count = 0;
    while (lines_next(&lines, &line))
        for (bool more = true; more; count++) {
            more = words_next(&line, &word);
            if (count == limit)
                return count;
            if (kept != NULL && (count < kept->head || count >= kept->tail))
                tokens->ids[tokens->count++] = more ? words_find(words, word) : WORDS_END;
        }
    return count;
}

static void write_words(const struct text_encoder *texts, struct piece text, struct token_row *tokens)
{
    const struct words *words = texts->facts->words;
    size_t most = texts->facts->max_len, limit = most + 1;
    struct kept kept = {.head = most, .tail = SIZE_MAX};
    text = text.size == 0 ? line_feed : text;
    if (texts->cut == CUT_MIDDLE) {
        limit = each_word(words, text, SIZE_MAX, NULL, tokens);
        kept = kept_of(limit_of(texts), limit);
    }
    tokens->count = 0;
    tokens->cut |= each_word(words, text, limit, &kept, tokens) > most;
}

hashattn_status tokens_encode(struct encoder *encoder, struct piece text, struct text_limit limit,
                              bool special_tokens, struct encoding *encoding)
{
    const struct encode_options options = {.max_tokens = limit.most, .special_tokens = special_tokens},
                                whole = {.special_tokens = special_tokens};
    TRY(encoder_encode(encoder, text, &options, encoding));
    return encoding->truncated && limit.cut == CUT_MIDDLE ? encoder_encode(encoder, text, &whole, encoding)
                                                          : HASHATTN_OK;
}

void tokens_take(const struct encoding *encoding, struct text_limit limit, struct token_row *tokens)
{
    const struct kept kept = kept_of(limit, encoding->count);
    size_t rest = kept.total - kept.tail;
    memcpy(tokens->ids, encoding->ids, kept.head * sizeof *tokens->ids);
    memcpy(tokens->ids + kept.head, encoding->ids + kept.tail, rest * sizeof *tokens->ids);
    if (tokens->segments != NULL) {
        memcpy(tokens->segments, encoding->segments, kept.head);
        memcpy(tokens->segments + kept.head, encoding->segments + kept.tail, rest);
    }
    tokens->count = kept.head + rest;
    tokens->cut |= encoding->truncated || tokens->count < kept.total;
}

/* A text that has no token at all, such as an empty one without special tokens, becomes a line feed. */
static hashattn_status write_tokens(struct host *host, struct text_encoder *texts, struct piece text,
                                    struct token_row *tokens)
{
    const struct text_limit limit = limit_of(texts);
    struct encoding encoding;
    TRY(tokens_encode(texts->encoder, text, limit, true, &encoding));
    if (encoding.count == 0)
        TRY(tokens_encode(texts->encoder, line_feed, limit, true, &encoding));
    FAIL_IF(encoding.count == 0, host, HASHATTN_BAD_FILE,
            "the document has no tokens, and the tokenizer adds none");
    tokens_take(&encoding, limit, tokens);
    return HASHATTN_OK;
}

/* A template without a second segment, but a model with one: it begins after the first text. */
static void separate(const struct text_encoder *texts, struct token_row *tokens)
{
    bool second = false;
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->segments[i] > 0)
            return;
    for (size_t i = 0; i < tokens->count; i++) {
        tokens->segments[i] = second;
        second |= tokens->ids[i] == texts->end;
    }
}

hashattn_status text_encoder_write_pair(struct host *host, struct text_encoder *texts,
                                        const struct piece pair[2], struct token_row *tokens)
{
    const struct encode_options options = {.max_tokens = texts->facts->max_len, .special_tokens = true};
    struct encoding encoding;
    assert(texts->encoder != NULL);
    TRY(encoder_encode_pair(texts->encoder, pair[0], pair[1], &options, &encoding));
    FAIL_IF(encoding.count == 0, host, HASHATTN_BAD_FILE,
            "the pair has no tokens, and the tokenizer adds none");
    tokens_take(&encoding, (struct text_limit){.most = encoding.count}, tokens);
    if (tokens->segments != NULL && texts->facts->num_segments > 1)
        separate(texts, tokens);
    return HASHATTN_OK;
}

hashattn_status text_encoder_write(struct host *host, struct text_encoder *texts, struct piece text,
                                   struct token_row *tokens)
{
    const struct task_facts *facts = texts->facts;
    assert(facts->max_len >= 1 && (facts->tokenizer == NULL) == (texts->encoder == NULL));
    if (facts->tokenizer != NULL)
        return write_tokens(host, texts, text, tokens);
    if (facts->words != NULL)
        write_words(texts, text, tokens);
    else
        write_bytes(texts, text, tokens);
    if (tokens->segments != NULL)
        memset(tokens->segments, 0, tokens->count);
    return HASHATTN_OK;
}
