/* The settings below are those of the transformers library's GPT2TokenizerFast, RobertaTokenizerFast and
   BertTokenizerFast.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "io/utf8.h"
#include "text/characters.h"
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

/* Adds a special token if the vocabulary has it. */
static hashattn_status add_special(struct host *host, struct tokenizer *tokenizer, const char *content,
                                   bool lstrip)
{
    struct added_token token = {.content = {content, strlen(content)}, .special = true, .lstrip = lstrip};
    if (!vocabulary_find(&tokenizer->vocabulary, token.content, &token.id))
        return HASHATTN_OK;
    return tokenizer_add(host, tokenizer, &token);
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

/* The special tokens and the post-processor, by what the vocabulary has. */
static hashattn_status set_bpe(struct host *host, struct tokenizer *tokenizer)
{
    static const char *const roberta[] = {"<s>", "<pad>", "</s>", "<unk>"};
    uint32_t start, end;
    tokenizer->decoder = DECODER_BYTE_LEVEL;
    if (tokenizer_find(tokenizer, (struct piece){"<s>", 3}, &start) &&
        tokenizer_find(tokenizer, (struct piece){"</s>", 4}, &end)) {
        for (size_t i = 0; i < sizeof roberta / sizeof roberta[0]; i++)
            TRY(add_special(host, tokenizer, roberta[i], false));
        TRY(add_special(host, tokenizer, "<mask>", true));
        template_roberta(tokenizer->templates, start, end);
        tokenizer->trim_offsets = true;
    } else {
        TRY(add_special(host, tokenizer, "<|endoftext|>", false));
    }
    return added_tokens_finish(host, &tokenizer->raw);
}

static hashattn_status read_bpe(struct host *host, const char *directory, const char *vocabulary,
                                const char *merges, struct tokenizer *tokenizer)
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
        status = set_bpe(host, tokenizer);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

static hashattn_status new_bpe(struct host *host, const char *directory, const char *vocabulary,
                               const char *merges, struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    *tokenizer = NULL;
    TRY(tokenizer_new(host, &made));
    made->kind = TOKENIZER_BYTE_BPE;
    hashattn_status status = read_bpe(host, directory, vocabulary, merges, made);
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

/* Reads the settings that tokenizer_config.json may have. */
static hashattn_status read_config(struct host *host, const char *directory,
                                   struct bert_normalizer *normalizer)
{
    char path[FILE_PATH];
    struct json *root;
    TRY(file_join(host, directory, "tokenizer_config.json", path, sizeof path));
    if (!file_exists(path))
        return HASHATTN_OK;
    TRY(json_read_file(host, path, &root));
    hashattn_status status = HASHATTN_OK;
    if (!json_is_absent(root, "do_lower_case"))
        status = json_get_bool(host, root, "do_lower_case", &normalizer->lower);
    normalizer->strip = normalizer->lower;
    if (status == HASHATTN_OK && !json_is_absent(root, "strip_accents"))
        status = json_get_bool(host, root, "strip_accents", &normalizer->strip);
    if (status == HASHATTN_OK && !json_is_absent(root, "tokenize_chinese_chars"))
        status = json_get_bool(host, root, "tokenize_chinese_chars", &normalizer->ideographs);
    json_free(root);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

static hashattn_status set_wordpiece(struct host *host, struct tokenizer *tokenizer)
{
    static const char *const names[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
    uint32_t ids[3];
    tokenizer->decoder = DECODER_WORDPIECE;
    tokenizer->decoder_cleanup = true;
    memcpy(tokenizer->decoder_prefix, "##", 3);
    memcpy(tokenizer->wordpiece.prefix, "##", 2);
    tokenizer->wordpiece.prefix_size = 2;
    tokenizer->wordpiece.max_characters = 100;
    for (size_t i = 0; i < 3; i++)
        FAIL_IF(!tokenizer_find(tokenizer, (struct piece){names[i], 5}, &ids[i]), host, HASHATTN_BAD_FILE,
                "special token '%s' is missing", names[i]);
    tokenizer->wordpiece.unknown = ids[0];
    TRY(wordpiece_init(host, &tokenizer->wordpiece, &tokenizer->vocabulary));
    template_bert(tokenizer->templates, ids[1], ids[2]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        TRY(add_special(host, tokenizer, names[i], false));
    return added_tokens_finish(host, &tokenizer->raw);
}

static hashattn_status read_wordpiece(struct host *host, const char *directory, struct tokenizer *tokenizer)
{
    char path[FILE_PATH], *text;
    size_t size;
    TRY(read_config(host, directory, &tokenizer->normalizer));
    TRY(file_join(host, directory, "vocab.txt", path, sizeof path));
    TRY(file_read_regular(host, path, JSON_MAX_BYTES, &text, &size));
    hashattn_status status = vocabulary_parse(host, text, size, &tokenizer->vocabulary);
    memory_free(host, text);
    if (status == HASHATTN_OK)
        status = set_wordpiece(host, tokenizer);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

hashattn_status tokenizer_read_wordpiece(struct host *host, const char *directory,
                                         struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    *tokenizer = NULL;
    TRY(tokenizer_new(host, &made));
    made->kind = TOKENIZER_WORDPIECE;
    made->has_normalizer = true;
    made->normalizer =
        (struct bert_normalizer){.clean = true, .ideographs = true, .strip = true, .lower = true};
    hashattn_status status = read_wordpiece(host, directory, made);
    if (status != HASHATTN_OK)
        tokenizer_free(host, made);
    else
        *tokenizer = made;
    return status;
}
