/* One encoder per reader; words and bytes need none.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/tokens.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "tasks/words.h"
#include "text/learning/learn_bpe.h"

const char *const token_kinds[] = {"bpe", "words", "bytes", NULL};

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

static void write_bytes(struct piece text, size_t most, struct token_row *tokens)
{
    text = text.size == 0 ? line_feed : text;
    tokens->count = size_min(text.size, most);
    for (size_t i = 0; i < tokens->count; i++)
        tokens->ids[i] = 1u + (unsigned char)text.bytes[i];
    tokens->cut |= tokens->count < text.size;
}

static void write_words(const struct words *words, struct piece text, size_t most, struct token_row *tokens)
{
    text = text.size == 0 ? line_feed : text;
    struct lines lines = lines_open(text.bytes, text.size);
    struct piece line, word;
    tokens->count = 0;
    while (lines_next(&lines, &line))
        for (bool more = true; more;) {
            more = words_next(&line, &word);
            if (tokens->count == most) {
                tokens->cut = true;
                return;
            }
            tokens->ids[tokens->count++] = more ? words_find(words, word) : WORDS_END;
        }
}

static void take_encoding(const struct encoding *encoding, struct token_row *tokens)
{
    memcpy(tokens->ids, encoding->ids, encoding->count * sizeof *tokens->ids);
    if (tokens->segments != NULL)
        memcpy(tokens->segments, encoding->segments, encoding->count);
    tokens->count = encoding->count;
    tokens->cut |= encoding->truncated;
}

/* A text that has no token at all, such as an empty one without special tokens, becomes a line feed. */
static hashattn_status write_tokens(struct host *host, struct text_encoder *texts, struct piece text,
                                    struct token_row *tokens)
{
    const struct encode_options options = {.max_tokens = texts->facts->max_len, .special_tokens = true};
    struct encoding encoding;
    TRY(encoder_encode(texts->encoder, text, &options, &encoding));
    if (encoding.count == 0)
        TRY(encoder_encode(texts->encoder, line_feed, &options, &encoding));
    FAIL_IF(encoding.count == 0, host, HASHATTN_BAD_FILE,
            "the document has no tokens, and the tokenizer adds none");
    take_encoding(&encoding, tokens);
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
    take_encoding(&encoding, tokens);
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
        write_words(facts->words, text, facts->max_len, tokens);
    else
        write_bytes(text, facts->max_len, tokens);
    if (tokens->segments != NULL)
        memset(tokens->segments, 0, tokens->count);
    return HASHATTN_OK;
}
