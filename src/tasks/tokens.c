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
    FAIL_IF(choice->given != NULL && choice->kind != TOKENS_BPE, host, HASHATTN_INVALID,
            "tokens is %s, but the stored model has a tokenizer of its own, which determines its ids: leave "
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

/* ---- encoding ------------------------------------------------------------------------------------------ */

hashattn_status text_encoder_open(struct host *host, const struct task_facts *facts,
                                  struct text_encoder *texts)
{
    *texts = (struct text_encoder){.facts = facts};
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
    memcpy(tokens->ids, encoding.ids, encoding.count * sizeof *tokens->ids);
    if (tokens->segments != NULL)
        memcpy(tokens->segments, encoding.segments, encoding.count);
    tokens->count = encoding.count;
    tokens->cut |= encoding.truncated;
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
