/* The parts that all kinds of tokenizers share: tokens by id and role, added tokens, templates. Loading tries
   the files in a fixed order.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "text/files/tokenizer_files.h"
#include "text/files/tokenizer_json.h"
#include "text/tokenizer_parts.h"

hashattn_status tokenizer_new(struct host *host, struct tokenizer **tokenizer)
{
    void *block;
    *tokenizer = NULL;
    TRY(memory_new_zeroed(host, 1, sizeof **tokenizer, "a tokenizer", &block));
    *tokenizer = block;
    for (size_t i = 0; i < TOKEN_ROLES; i++)
        (*tokenizer)->roles[i] = TOKEN_NONE;
    template_plain((*tokenizer)->templates);
    return HASHATTN_OK;
}

void tokenizer_free(struct host *host, struct tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    vocabulary_free(host, &tokenizer->vocabulary);
    bpe_free(host, &tokenizer->bpe);
    wordpiece_free(host, &tokenizer->wordpiece);
    added_tokens_free(host, &tokenizer->raw);
    added_tokens_free(host, &tokenizer->normalized);
    memory_free(host, tokenizer);
}

static const struct {
    const char *name;
    hashattn_status (*read)(struct host *host, const char *directory, struct tokenizer **tokenizer);
} formats[] = {
    {"tokenizer.json", tokenizer_read_json},
    {"vocab.json", tokenizer_read_bpe},
    {"encoder.json", tokenizer_read_gpt2},
    {"vocab.txt", tokenizer_read_wordpiece},
};
enum { NUM_FORMATS = sizeof formats / sizeof formats[0] };

/* *format: the first whose file is in the directory; NUM_FORMATS: none. */
static hashattn_status find_format(struct host *host, const char *directory, size_t *format)
{
    char path[FILE_PATH];
    for (*format = 0; *format < NUM_FORMATS; ++*format) {
        TRY(file_join(host, directory, formats[*format].name, path, sizeof path));
        if (file_exists(path))
            break;
    }
    return HASHATTN_OK;
}

hashattn_status tokenizer_load(struct host *host, const char *directory, struct tokenizer **tokenizer)
{
    size_t format;
    *tokenizer = NULL;
    TRY(find_format(host, directory, &format));
    FAIL_IF(format == NUM_FORMATS, host, HASHATTN_BAD_FILE,
            "%s: no tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt",
            directory);
    return formats[format].read(host, directory, tokenizer);
}

hashattn_status tokenizer_is_in(struct host *host, const char *directory, bool *is)
{
    size_t format;
    TRY(find_format(host, directory, &format));
    *is = format < NUM_FORMATS;
    return HASHATTN_OK;
}

size_t tokenizer_num_ids(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary.num_ids;
}

struct piece tokenizer_token(const struct tokenizer *tokenizer, uint32_t id)
{
    return vocabulary_get(&tokenizer->vocabulary, id);
}

bool tokenizer_find(const struct tokenizer *tokenizer, struct piece token, uint32_t *id)
{
    return vocabulary_find(&tokenizer->vocabulary, token, id);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->vocabulary.num_ids && tokenizer->vocabulary.entries[id].special;
}

bool tokenizer_lowers(const struct tokenizer *tokenizer)
{
    return tokenizer->has_normalizer && tokenizer->normalizer.lower;
}

const char *const token_role_names[TOKEN_ROLES] = {"is_start", "is_end", "is_padding", "is_unknown",
                                                   "is_mask"};

bool tokenizer_role(const struct tokenizer *tokenizer, enum token_role role, uint32_t *id)
{
    static const char *const names[][3] = {
        [TOKEN_START] = {"<s>", "[CLS]", "<|endoftext|>"},
        [TOKEN_END] = {"</s>", "[SEP]", "<|endoftext|>"},
        [TOKEN_PAD] = {"<pad>", "[PAD]", NULL},
        [TOKEN_UNKNOWN] = {"<unk>", "[UNK]", NULL},
        [TOKEN_MASK] = {"<mask>", "[MASK]", NULL},
    };
    if (tokenizer->roles[role] != TOKEN_NONE) {
        *id = tokenizer->roles[role];
        return true;
    }
    for (int i = 0; i < 3 && names[role][i] != NULL; i++)
        if (tokenizer_find(tokenizer, (struct piece){names[role][i], strlen(names[role][i])}, id))
            return true;
    return false;
}

hashattn_status tokenizer_add(struct host *host, struct tokenizer *tokenizer, const struct added_token *token)
{
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    uint32_t id;
    int shown = (int)size_min(token->content.size, 60);
    if (vocabulary_find(vocabulary, token->content, &id)) {
        FAIL_IF(id != token->id, host, HASHATTN_BAD_FILE,
                "added token '%.*s' has id %u, but %u in the vocabulary", shown, token->content.bytes,
                token->id, id);
    } else {
        TRY(vocabulary_add(host, vocabulary, token->content, token->id));
        vocabulary->entries[token->id].outside = true;
    }
    vocabulary->entries[token->id].added = true;
    vocabulary->entries[token->id].special |= token->special;
    if (!token->normalized || !tokenizer->has_normalizer)
        return added_tokens_add(host, token->normalized ? &tokenizer->normalized : &tokenizer->raw, token);
    struct normal_text normal = {.bytes = NULL};
    struct added_token changed = *token;
    hashattn_status status = bert_normalize(host, &tokenizer->normalizer, token->content, &normal);
    changed.content = (struct piece){normal.bytes, normal.size};
    if (status == HASHATTN_OK && normal.size > 0) /* an empty one is never found */
        status = added_tokens_add(host, &tokenizer->normalized, &changed);
    if (status == HASHATTN_OK && normal.size > 0)
        vocabulary->entries[token->id].normalized = (uint32_t)tokenizer->normalized.count;
    normal_text_free(host, &normal);
    return status;
}

/* ---- templates ---------------------------------------------------------------------------------------- */

hashattn_status template_add(struct host *host, struct token_template *template, struct template_piece piece)
{
    FAIL_IF(template->count == TEMPLATE_MOST, host, HASHATTN_BAD_FILE,
            "the post-processor has more than %d pieces", TEMPLATE_MOST);
    template->pieces[template->count++] = piece;
    return HASHATTN_OK;
}

void tokenizer_separate_pair(struct tokenizer *tokenizer)
{
    struct token_template *pair = &tokenizer->templates[1];
    size_t at = 0;
    for (size_t i = 0; i < pair->count; i++)
        if (pair->pieces[i].segment > 0)
            return;
    while (at < pair->count && pair->pieces[at].text != 0)
        at++;
    while (at < pair->count && pair->pieces[at].text >= 0)
        at++;
    for (at++; at < pair->count; at++)
        pair->pieces[at].segment = 1;
}

void template_plain(struct token_template templates[2])
{
    templates[0] = (struct token_template){.pieces = {{.text = 0}}, .count = 1};
    templates[1] = (struct token_template){.pieces = {{.text = 0}, {.text = 1, .segment = 1}}, .count = 2};
}

void template_bert(struct token_template templates[2], uint32_t start, uint32_t end)
{
    const struct template_piece pieces[] = {
        {-1, start, 0}, {0, 0, 0}, {-1, end, 0}, {1, 0, 1}, {-1, end, 1},
    };
    for (size_t i = 0; i < 2; i++) {
        templates[i].count = i == 0 ? 3 : 5;
        memcpy(templates[i].pieces, pieces, sizeof pieces);
    }
}

void template_roberta(struct token_template templates[2], uint32_t start, uint32_t end)
{
    const struct template_piece pieces[] = {
        {-1, start, 0}, {0, 0, 0}, {-1, end, 0}, {-1, end, 0}, {1, 0, 0}, {-1, end, 0},
    };
    for (size_t i = 0; i < 2; i++) {
        templates[i].count = i == 0 ? 3 : 6;
        memcpy(templates[i].pieces, pieces, sizeof pieces);
    }
}
