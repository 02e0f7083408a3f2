/* The default settings are those of the transformers library's GPT2Tokenizer, RobertaTokenizer and
   BertTokenizer.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/files/tokenizer_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "io/utf8.h"
#include "text/characters.h"
#include "text/files/tokenizer_settings.h"
#include "text/tokenizer_parts.h"

hashattn_status vocabulary_from_json(struct host *host, const struct json *object,
                                     struct vocabulary *vocabulary)
{
    size_t count = json_count(object);
    FAIL_IF(count > VOCABULARY_MOST_IDS, host, HASHATTN_BAD_FILE, "%zu tokens, at most %d are allowed (2^20)",
            count, VOCABULARY_MOST_IDS);
    for (struct json_member m = json_first(object); m.key != NULL; m = json_next(m)) {
        int64_t id;
        hashattn_status status = json_get_int(host, m.value, "", 0, VOCABULARY_MOST_IDS - 1, &id);
        if (status != HASHATTN_OK) {
            char name[80];
            snprintf(name, sizeof name, "token '%.60s'", m.key);
            host_prefix(host, name);
            return status;
        }
        TRY(vocabulary_add(host, vocabulary, (struct piece){m.key, strlen(m.key)}, (uint64_t)id));
    }
    return HASHATTN_OK;
}

/* ---- a vocabulary in JSON and merges ------------------------------------------------------------------ */

static hashattn_status read_merge(struct host *host, struct piece line, struct tokenizer *tokenizer)
{
    const char *space = line.size > 0 ? memchr(line.bytes, ' ', line.size) : NULL;
    FAIL_IF(space == NULL || memchr(space + 1, ' ', line.size - (size_t)(space + 1 - line.bytes)) != NULL,
            host, HASHATTN_BAD_FILE, "a merge is two tokens separated by one space");
    FAIL_IF(tokenizer->bpe.num_merges == VOCABULARY_MOST_IDS, host, HASHATTN_BAD_FILE,
            "more than %d merges (2^20)", VOCABULARY_MOST_IDS);
    size_t left = (size_t)(space - line.bytes);
    return bpe_add(host, &tokenizer->bpe, &tokenizer->vocabulary, (struct piece){line.bytes, left},
                   (struct piece){space + 1, line.size - left - 1});
}

static bool is_version(struct piece line)
{
    return line.size >= 8 && memcmp(line.bytes, "#version", 8) == 0;
}

hashattn_status merges_parse(struct host *host, const char *text, size_t size, struct tokenizer *tokenizer)
{
    struct lines lines = lines_open(text, size);
    struct piece line;
    size_t count = 0;
    while (lines_next(&lines, &line))
        count++;
    TRY(bpe_init(host, &tokenizer->bpe, &tokenizer->vocabulary, size_min(count, VOCABULARY_MOST_IDS)));
    lines = lines_open(text, size);
    while (lines_next(&lines, &line)) {
        if (is_version(line) || (line.size == 0 && lines.at == lines.end))
            continue;
        hashattn_status status = read_merge(host, line, tokenizer);
        if (status != HASHATTN_OK) {
            lines_prefix(host, &lines);
            return status;
        }
    }
    return HASHATTN_OK;
}

/* Vocabularies of GPT and CLIP mark the end of a word by </w>: "e</w>" is not made of smaller tokens. */
static hashattn_status check_ends(struct host *host, const struct tokenizer *tokenizer)
{
    static const char end[] = "</w>";
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    const size_t size = sizeof end - 1;
    void *block;
    TRY(memory_new_zeroed(host, vocabulary->num_ids, 1, "tokens of merges", &block));
    unsigned char *merged = block;
    for (size_t i = 0; i < tokenizer->bpe.num_pairs; i++)
        merged[tokenizer->bpe.merges[i].result] = 1;
    hashattn_status status = HASHATTN_OK;
    for (size_t id = 0; id < vocabulary->num_ids && status == HASHATTN_OK; id++) {
        struct piece token = vocabulary_get(vocabulary, id);
        if (token.size > size && !merged[id] && memcmp(token.bytes + token.size - size, end, size) == 0)
            status =
                host_fail(host, HASHATTN_BAD_FILE,
                          "token '%.*s' ends a word with </w>, as in GPT and CLIP; such vocabularies are not "
                          "supported",
                          (int)size_min(token.size, 60), token.bytes);
    }
    memory_free(host, block);
    return status;
}

static const struct default_token roberta_tokens[] = {
    {"bos_token", "<s>", false},    {"eos_token", "</s>", false},
    {"unk_token", "<unk>", false},  {"sep_token", "</s>", false},
    {"pad_token", "<pad>", false},  {"cls_token", "<s>", false},
    {"mask_token", "<mask>", true}, {NULL, NULL, false}};
static const struct default_token gpt2_tokens[] = {{"bos_token", "<|endoftext|>", false},
                                                   {"eos_token", "<|endoftext|>", false},
                                                   {"unk_token", "<|endoftext|>", false},
                                                   {NULL, NULL, false}};
static const struct default_token bert_tokens[] = {
    {"unk_token", "[UNK]", false}, {"sep_token", "[SEP]", false},   {"pad_token", "[PAD]", false},
    {"cls_token", "[CLS]", false}, {"mask_token", "[MASK]", false}, {NULL, NULL, false}};

/* The id of the special token under a key. BAD_FILE: the vocabulary lacks it. */
static hashattn_status find_special(struct host *host, const struct tokenizer_settings *settings,
                                    const char *key, const struct default_token *defaults,
                                    const struct tokenizer *tokenizer, uint32_t *id)
{
    struct added_token token = {.special = true};
    TRY(settings_special(host, settings, key, &token));
    for (; token.content.bytes == NULL && defaults->key != NULL; defaults++)
        if (strcmp(defaults->key, key) == 0)
            token.content = (struct piece){defaults->content, strlen(defaults->content)};
    FAIL_IF(!tokenizer_find(tokenizer, token.content, id), host, HASHATTN_BAD_FILE,
            "special token '%.*s' is missing", (int)size_min(token.content.size, 60), token.content.bytes);
    return HASHATTN_OK;
}

/* GPT-2 adds its special tokens only if told to. */
static hashattn_status set_gpt2(struct host *host, const struct tokenizer_settings *settings,
                                struct tokenizer *tokenizer)
{
    bool begins = false, ends = false;
    struct template_piece begin = {.text = -1}, end = {.text = -1};
    TRY(settings_flag(host, settings, "add_bos_token", &begins));
    TRY(settings_flag(host, settings, "add_eos_token", &ends));
    if (begins)
        TRY(find_special(host, settings, "bos_token", gpt2_tokens, tokenizer, &begin.id));
    if (ends)
        TRY(find_special(host, settings, "eos_token", gpt2_tokens, tokenizer, &end.id));
    for (size_t i = 0; i < 2; i++) {
        tokenizer->templates[i].count = 0;
        for (uint8_t text = 0; text <= i; text++) {
            begin.segment = end.segment = text;
            if (begins)
                TRY(template_add(host, &tokenizer->templates[i], begin));
            TRY(template_add(host, &tokenizer->templates[i], (struct template_piece){text, 0, text}));
            if (ends)
                TRY(template_add(host, &tokenizer->templates[i], end));
        }
    }
    return HASHATTN_OK;
}

/* The special tokens and the post-processor, by the class, or else by what the vocabulary has. */
static hashattn_status set_bpe(struct host *host, const struct tokenizer_settings *settings,
                               struct tokenizer *tokenizer)
{
    enum tokenizer_family family;
    uint32_t start, end;
    tokenizer->decoder = DECODER_BYTE_LEVEL;
    TRY(settings_family(host, settings, TOKENIZER_BYTE_BPE, &family));
    TRY(check_ends(host, tokenizer));
    if (family == FAMILY_ANY)
        family = tokenizer_find(tokenizer, (struct piece){"<s>", 3}, &start) &&
                         tokenizer_find(tokenizer, (struct piece){"</s>", 4}, &end)
                     ? FAMILY_ROBERTA
                     : FAMILY_GPT2;
    const struct default_token *defaults = family == FAMILY_ROBERTA ? roberta_tokens : gpt2_tokens;
    TRY(settings_flag(host, settings, "add_prefix_space", &tokenizer->prefix_space));
    TRY(settings_add_tokens(host, settings, defaults, tokenizer));
    if (family != FAMILY_ROBERTA)
        return set_gpt2(host, settings, tokenizer);
    TRY(find_special(host, settings, "cls_token", defaults, tokenizer, &start));
    TRY(find_special(host, settings, "sep_token", defaults, tokenizer, &end));
    template_roberta(tokenizer->templates, start, end);
    tokenizer->trim_offsets = true;
    tokenizer->trim_prefix_space = tokenizer->prefix_space;
    return settings_flag(host, settings, "trim_offsets", &tokenizer->trim_offsets);
}

static hashattn_status read_bpe(struct host *host, const char *directory, const char *vocabulary,
                                const char *merges, const struct tokenizer_settings *settings,
                                struct tokenizer *tokenizer)
{
    char path[FILE_PATH], *text;
    struct json *root;
    const struct json *object;
    size_t size;
    TRY(file_join(host, directory, vocabulary, path, sizeof path));
    TRY(json_read_file(host, path, &root));
    hashattn_status status = json_get_object(host, root, "", &object);
    if (status == HASHATTN_OK)
        status = vocabulary_from_json(host, object, &tokenizer->vocabulary);
    json_free(root);
    if (status == HASHATTN_OK) {
        TRY(file_join(host, directory, merges, path, sizeof path));
        TRY(file_read_regular(host, path, JSON_MAX_BYTES, &text, &size));
        status = merges_parse(host, text, size, tokenizer);
        memory_free(host, text);
    }
    if (status == HASHATTN_OK)
        status = set_bpe(host, settings, tokenizer);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

static hashattn_status new_bpe(struct host *host, const char *directory, const char *vocabulary,
                               const char *merges, struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    struct tokenizer_settings settings;
    *tokenizer = NULL;
    TRY(tokenizer_new(host, &made));
    made->kind = TOKENIZER_BYTE_BPE;
    hashattn_status status = settings_read(host, directory, &settings);
    if (status == HASHATTN_OK)
        status = read_bpe(host, directory, vocabulary, merges, &settings, made);
    settings_free(&settings);
    if (status != HASHATTN_OK)
        tokenizer_free(host, made);
    else
        *tokenizer = made;
    return status;
}

hashattn_status tokenizer_read_bpe(struct host *host, const char *directory, struct tokenizer **tokenizer)
{
    return new_bpe(host, directory, "vocab.json", "merges.txt", tokenizer);
}

hashattn_status tokenizer_read_gpt2(struct host *host, const char *directory, struct tokenizer **tokenizer)
{
    return new_bpe(host, directory, "encoder.json", "vocab.bpe", tokenizer);
}

/* ---- vocab.txt ---------------------------------------------------------------------------------------- */

/* A line without the white space at its end, as the reference reads it. */
static struct piece trim_end(struct piece line)
{
    struct piece kept = {line.bytes, 0};
    int32_t point;
    for (size_t at = 0, size; at < line.size; at += size) {
        size = character_read(line.bytes + at, line.bytes + line.size, &point);
        if ((character_flags(point) & CHARACTER_SPACE) == 0)
            kept.size = at + size;
    }
    return kept;
}

hashattn_status vocabulary_parse(struct host *host, const char *text, size_t size,
                                 struct vocabulary *vocabulary)
{
    struct lines lines = lines_open(text, size);
    struct piece line;
    hashattn_status status = HASHATTN_OK;
    while (status == HASHATTN_OK && lines_next(&lines, &line)) {
        line = trim_end(line);
        status = utf8_check(host, line.bytes, line.size);
        if (status == HASHATTN_OK)
            status = vocabulary_add(host, vocabulary, line, lines.number - 1);
    }
    if (status != HASHATTN_OK)
        lines_prefix(host, &lines);
    return status;
}

static hashattn_status set_normalizer(struct host *host, const struct tokenizer_settings *settings,
                                      struct bert_normalizer *normalizer)
{
    TRY(settings_flag(host, settings, "do_lower_case", &normalizer->lower));
    normalizer->strip = normalizer->lower;
    TRY(settings_flag(host, settings, "strip_accents", &normalizer->strip));
    return settings_flag(host, settings, "tokenize_chinese_chars", &normalizer->ideographs);
}

static hashattn_status set_wordpiece(struct host *host, const struct tokenizer_settings *settings,
                                     struct tokenizer *tokenizer)
{
    enum tokenizer_family family;
    uint32_t start, end;
    tokenizer->decoder = DECODER_WORDPIECE;
    tokenizer->decoder_cleanup = true;
    memcpy(tokenizer->decoder_prefix, "##", 3);
    memcpy(tokenizer->wordpiece.prefix, "##", 2);
    tokenizer->wordpiece.prefix_size = 2;
    tokenizer->wordpiece.max_characters = 100;
    TRY(settings_family(host, settings, TOKENIZER_WORDPIECE, &family));
    TRY(set_normalizer(host, settings, &tokenizer->normalizer));
    TRY(find_special(host, settings, "unk_token", bert_tokens, tokenizer, &tokenizer->wordpiece.unknown));
    TRY(wordpiece_init(host, &tokenizer->wordpiece, &tokenizer->vocabulary));
    TRY(settings_add_tokens(host, settings, bert_tokens, tokenizer));
    TRY(find_special(host, settings, "cls_token", bert_tokens, tokenizer, &start));
    TRY(find_special(host, settings, "sep_token", bert_tokens, tokenizer, &end));
    template_bert(tokenizer->templates, start, end);
    return HASHATTN_OK;
}

static hashattn_status read_wordpiece(struct host *host, const char *directory,
                                      const struct tokenizer_settings *settings, struct tokenizer *tokenizer)
{
    char path[FILE_PATH], *text;
    size_t size;
    TRY(file_join(host, directory, "vocab.txt", path, sizeof path));
    TRY(file_read_regular(host, path, JSON_MAX_BYTES, &text, &size));
    hashattn_status status = vocabulary_parse(host, text, size, &tokenizer->vocabulary);
    memory_free(host, text);
    if (status == HASHATTN_OK)
        status = set_wordpiece(host, settings, tokenizer);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

hashattn_status tokenizer_read_wordpiece(struct host *host, const char *directory,
                                         struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    struct tokenizer_settings settings;
    *tokenizer = NULL;
    TRY(tokenizer_new(host, &made));
    made->kind = TOKENIZER_WORDPIECE;
    made->has_normalizer = true;
    made->normalizer =
        (struct bert_normalizer){.clean = true, .ideographs = true, .strip = true, .lower = true};
    hashattn_status status = settings_read(host, directory, &settings);
    if (status == HASHATTN_OK)
        status = read_wordpiece(host, directory, &settings, made);
    settings_free(&settings);
    if (status != HASHATTN_OK)
        tokenizer_free(host, made);
    else
        *tokenizer = made;
    return status;
}
