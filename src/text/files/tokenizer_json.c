/* Reading goes through the sections in the order in which they need each other: normalizer, model, added
   tokens, pre-tokenizer, post-processor, decoder.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/files/tokenizer_json.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "text/files/tokenizer_files.h"
#include "text/files/tokenizer_settings.h"
#include "text/tokenizer_parts.h"

enum { PATH = 120 }; /* bytes of a key path */

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

static void join(char path[PATH], const char *section, const char *name)
{
    snprintf(path, PATH, "%.70s.%.40s", section, name);
}

/* A flag that may be missing. */
static hashattn_status get_flag(struct host *host, const struct json *root, const char *section,
                                const char *name, bool fallback, bool *value)
{
    char path[PATH];
    join(path, section, name);
    *value = fallback;
    return json_is_absent(root, path) ? HASHATTN_OK : json_get_bool(host, root, path, value);
}

/* Refuses an option that is true. */
static hashattn_status refuse_flag(struct host *host, const struct json *root, const char *section,
                                   const char *name)
{
    bool value;
    TRY(get_flag(host, root, section, name, false, &value));
    FAIL_IF(value, host, HASHATTN_BAD_FILE, "'%s.%s' is true, which is not supported", section, name);
    return HASHATTN_OK;
}

/* A text that may be missing or null; *value is then NULL. */
static hashattn_status get_text(struct host *host, const struct json *root, const char *section,
                                const char *name, const char **value)
{
    char path[PATH];
    join(path, section, name);
    *value = NULL;
    return json_is_absent(root, path) ? HASHATTN_OK : json_get_string(host, root, path, value);
}

/* The type of a section; NULL if the section is missing or null. */
static hashattn_status get_type(struct host *host, const struct json *root, const char *section,
                                const char **type)
{
    char path[PATH];
    const struct json *object;
    join(path, section, "type");
    *type = NULL;
    if (json_is_absent(root, section))
        return HASHATTN_OK;
    TRY(json_get_object(host, root, section, &object));
    return json_get_string(host, root, path, type);
}

static hashattn_status fail_type(struct host *host, const char *section, const char *type, const char *known)
{
    return host_fail(host, HASHATTN_BAD_FILE, "%s '%.60s' is not supported; supported: %s", section,
                     type == NULL ? "null" : type, known);
}

static bool is(const char *type, const char *name)
{
    return type != NULL && strcmp(type, name) == 0;
}

/* ---- normalizer and model ----------------------------------------------------------------------------- */

static hashattn_status read_normalizer(struct host *host, const struct json *root,
                                       struct tokenizer *tokenizer)
{
    const char *type, *section = "normalizer";
    struct bert_normalizer *normalizer = &tokenizer->normalizer;
    TRY(get_type(host, root, section, &type));
    if (type == NULL)
        return HASHATTN_OK;
    if (!is(type, "BertNormalizer"))
        return fail_type(host, section, type, "BertNormalizer and null");
    tokenizer->has_normalizer = true;
    TRY(get_flag(host, root, section, "clean_text", true, &normalizer->clean));
    TRY(get_flag(host, root, section, "handle_chinese_chars", true, &normalizer->ideographs));
    TRY(get_flag(host, root, section, "lowercase", true, &normalizer->lower));
    return get_flag(host, root, section, "strip_accents", normalizer->lower, &normalizer->strip);
}

/* A merge is "left right" or ["left", "right"]. */
static hashattn_status read_merge(struct host *host, const struct json *merge, struct tokenizer *tokenizer)
{
    const char *left = json_text(merge), *right = NULL;
    size_t left_size = 0;
    if (left != NULL && (right = strchr(left, ' ')) != NULL) {
        left_size = (size_t)(right++ - left);
    } else if (left == NULL && json_count(merge) == 2) {
        left = json_text(json_element(merge, 0));
        right = json_text(json_element(merge, 1));
        left_size = left != NULL ? strlen(left) : 0;
    }
    FAIL_IF(left == NULL || right == NULL, host, HASHATTN_BAD_FILE,
            "merge %zu is neither \"left right\" nor a pair of texts", tokenizer->bpe.num_merges);
    return bpe_add(host, &tokenizer->bpe, &tokenizer->vocabulary, (struct piece){left, left_size},
                   piece_of(right));
}

static hashattn_status read_bpe(struct host *host, const struct json *root, struct tokenizer *tokenizer)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct json *merges;
    const char *text;
    tokenizer->kind = TOKENIZER_BYTE_BPE;
    for (size_t i = 0; i < 2; i++) {
        TRY(get_text(host, root, "model", affixes[i], &text));
        FAIL_IF(text != NULL && text[0] != '\0', host, HASHATTN_BAD_FILE,
                "'model.%s' is '%.20s', which is not supported", affixes[i], text);
    }
    FAIL_IF(!json_is_absent(root, "model.dropout"), host, HASHATTN_BAD_FILE,
            "'model.dropout' is not null, which is not supported");
    TRY(refuse_flag(host, root, "model", "byte_fallback"));
    TRY(refuse_flag(host, root, "model", "ignore_merges"));
    TRY(refuse_flag(host, root, "model", "fuse_unk"));
    TRY(json_get_array(host, root, "model.merges", &merges));
    size_t count = json_count(merges);
    FAIL_IF(count > VOCABULARY_MOST_IDS, host, HASHATTN_BAD_FILE, "%zu merges, at most %d are allowed (2^20)",
            count, VOCABULARY_MOST_IDS);
    TRY(bpe_init(host, &tokenizer->bpe, &tokenizer->vocabulary, count));
    for (size_t i = 0; i < count; i++)
        TRY(read_merge(host, json_element(merges, i), tokenizer));
    TRY(get_text(host, root, "model", "unk_token", &text));
    FAIL_IF(text != NULL && text[0] != '\0' &&
                !vocabulary_find(&tokenizer->vocabulary, piece_of(text), &tokenizer->bpe.unknown),
            host, HASHATTN_BAD_FILE, "'model.unk_token' '%.60s' is not in the vocabulary", text);
    return HASHATTN_OK;
}

static hashattn_status read_wordpiece(struct host *host, const struct json *root, struct tokenizer *tokenizer)
{
    struct wordpiece *wordpiece = &tokenizer->wordpiece;
    const char *prefix, *unknown;
    int64_t most;
    tokenizer->kind = TOKENIZER_WORDPIECE;
    TRY(json_get_string(host, root, "model.continuing_subword_prefix", &prefix));
    TRY(json_get_string(host, root, "model.unk_token", &unknown));
    TRY(json_get_int(host, root, "model.max_input_chars_per_word", 0, INT32_MAX, &most));
    wordpiece->prefix_size = strlen(prefix);
    FAIL_IF(wordpiece->prefix_size >= WORDPIECE_PREFIX, host, HASHATTN_BAD_FILE,
            "'model.continuing_subword_prefix' has %zu bytes, at most %d are allowed", wordpiece->prefix_size,
            WORDPIECE_PREFIX - 1);
    memcpy(wordpiece->prefix, prefix, wordpiece->prefix_size);
    wordpiece->max_characters = (size_t)most;
    FAIL_IF(!vocabulary_find(&tokenizer->vocabulary, piece_of(unknown), &wordpiece->unknown), host,
            HASHATTN_BAD_FILE, "'model.unk_token' '%.60s' is not in the vocabulary", unknown);
    return wordpiece_init(host, wordpiece, &tokenizer->vocabulary);
}

static hashattn_status read_model(struct host *host, const struct json *root, struct tokenizer *tokenizer)
{
    const struct json *object;
    const char *type = NULL;
    TRY(json_get_object(host, root, "model", &object));
    /* Old files name no type. */
    if (!json_is_absent(root, "model.type"))
        TRY(json_get_string(host, root, "model.type", &type));
    else
        type = json_at(object, "merges") != NULL ? "BPE" : "WordPiece";
    if (!is(type, "BPE") && !is(type, "WordPiece"))
        return fail_type(host, "model", type, "BPE and WordPiece");
    TRY(json_get_object(host, root, "model.vocab", &object));
    hashattn_status status = vocabulary_from_json(host, object, &tokenizer->vocabulary);
    if (status != HASHATTN_OK)
        host_prefix(host, "model.vocab");
    else
        status = is(type, "BPE") ? read_bpe(host, root, tokenizer) : read_wordpiece(host, root, tokenizer);
    return status;
}

/* ---- added tokens ------------------------------------------------------------------------------------- */

static hashattn_status read_added(struct host *host, const struct json *root, size_t index,
                                  struct tokenizer *tokenizer)
{
    char section[PATH / 2], path[PATH];
    const char *content;
    struct added_token token;
    int64_t id;
    snprintf(section, sizeof section, "added_tokens.%zu", index);
    join(path, section, "content");
    TRY(json_get_string(host, root, path, &content));
    join(path, section, "id");
    TRY(json_get_int(host, root, path, 0, VOCABULARY_MOST_IDS - 1, &id));
    token.content = piece_of(content);
    token.id = (uint32_t)id;
    TRY(get_flag(host, root, section, "special", false, &token.special));
    TRY(get_flag(host, root, section, "normalized", !token.special, &token.normalized));
    TRY(get_flag(host, root, section, "lstrip", false, &token.lstrip));
    TRY(get_flag(host, root, section, "rstrip", false, &token.rstrip));
    TRY(get_flag(host, root, section, "single_word", false, &token.single_word));
    TRY(tokenizer_add(host, tokenizer, &token));
    for (size_t role = 0; role < TOKEN_ROLES; role++)
        if (json_find(json_element(json_find(root, "added_tokens"), index), token_role_names[role]) != NULL)
            tokenizer->roles[role] = token.id;
    return HASHATTN_OK;
}

static hashattn_status read_all_added(struct host *host, const struct json *root, struct tokenizer *tokenizer)
{
    const struct json *list;
    if (json_is_absent(root, "added_tokens"))
        return HASHATTN_OK;
    TRY(json_get_array(host, root, "added_tokens", &list));
    for (size_t i = 0; i < json_count(list); i++)
        TRY(read_added(host, root, i, tokenizer));
    TRY(added_tokens_finish(host, &tokenizer->raw));
    return added_tokens_finish(host, &tokenizer->normalized);
}

/* ---- pre-tokenizer, post-processor, decoder ----------------------------------------------------------- */

static hashattn_status read_pre_tokenizer(struct host *host, const struct json *root,
                                          struct tokenizer *tokenizer)
{
    const char *type, *section = "pre_tokenizer";
    bool use_regex;
    bool is_bpe = tokenizer->kind == TOKENIZER_BYTE_BPE;
    TRY(get_type(host, root, section, &type));
    if (!is(type, is_bpe ? "ByteLevel" : "BertPreTokenizer"))
        return fail_type(host, section, type,
                         is_bpe ? "ByteLevel for BPE" : "BertPreTokenizer for WordPiece");
    FAIL_IF(is_bpe && tokenizer->has_normalizer, host, HASHATTN_BAD_FILE,
            "a normalizer before ByteLevel is not supported");
    if (!is_bpe)
        return HASHATTN_OK;
    TRY(get_flag(host, root, section, "use_regex", true, &use_regex));
    FAIL_IF(!use_regex, host, HASHATTN_BAD_FILE, "'%s.use_regex' is false, which is not supported", section);
    return get_flag(host, root, section, "add_prefix_space", true, &tokenizer->prefix_space);
}

/* The id of a special token [text, id] of BertProcessing and RobertaProcessing. */
static hashattn_status get_special(struct host *host, const struct json *root, const char *section,
                                   const char *name, const struct tokenizer *tokenizer, uint32_t *id)
{
    char path[PATH];
    const char *text;
    int64_t given;
    snprintf(path, sizeof path, "%.70s.%.40s.0", section, name);
    TRY(json_get_string(host, root, path, &text));
    snprintf(path, sizeof path, "%.70s.%.40s.1", section, name);
    TRY(json_get_int(host, root, path, 0, VOCABULARY_MOST_IDS - 1, &given));
    FAIL_IF(!tokenizer_find(tokenizer, piece_of(text), id), host, HASHATTN_BAD_FILE,
            "'%s.%s': special token '%.60s' is not in the vocabulary", section, name, text);
    FAIL_IF(*id != given, host, HASHATTN_BAD_FILE,
            "'%s.%s': special token '%.60s' has id %lld, but %u in the "
            "vocabulary",
            section, name, text, (long long)given, *id);
    return HASHATTN_OK;
}

static hashattn_status read_trim(struct host *host, const struct json *root, const char *section,
                                 struct tokenizer *tokenizer)
{
    TRY(get_flag(host, root, section, "trim_offsets", true, &tokenizer->trim_offsets));
    return get_flag(host, root, section, "add_prefix_space", true, &tokenizer->trim_prefix_space);
}

/* Appends the ids that a special token of a template stands for. */
static hashattn_status read_special_ids(struct host *host, const struct json *root, const char *section,
                                        const char *name, const struct tokenizer *tokenizer, uint8_t segment,
                                        struct token_template *template)
{
    const struct json *table = NULL, *ids;
    char path[PATH];
    join(path, section, "special_tokens");
    TRY(json_get_object(host, root, path, &table));
    const struct json *entry = json_at(table, name);
    FAIL_IF(entry == NULL, host, HASHATTN_BAD_FILE, "special token '%.60s' is missing in '%s'", name, path);
    TRY(json_get_array(host, entry, "ids", &ids));
    for (size_t i = 0; i < json_count(ids); i++) {
        int64_t id;
        snprintf(path, sizeof path, "ids.%zu", i);
        TRY(json_get_int(host, entry, path, 0, VOCABULARY_MOST_IDS - 1, &id));
        FAIL_IF(tokenizer_token(tokenizer, (uint32_t)id).bytes == NULL, host, HASHATTN_BAD_FILE,
                "special token '%.60s' of '%s' has id %lld, which is not in the vocabulary", name, section,
                (long long)id);
        TRY(template_add(host, template, (struct template_piece){-1, (uint32_t)id, segment}));
    }
    return HASHATTN_OK;
}

static hashattn_status read_template(struct host *host, const struct json *root, const char *section,
                                     const char *name, int texts, const struct tokenizer *tokenizer,
                                     struct token_template *template)
{
    char path[PATH];
    const struct json *pieces;
    join(path, section, name);
    TRY(json_get_array(host, root, path, &pieces));
    template->count = 0;
    int uses[2] = {0, 0};
    for (size_t i = 0; i < json_count(pieces); i++) {
        const struct json *piece = json_element(pieces, i);
        const char *id, *what = json_at(piece, "Sequence") != NULL ? "Sequence" : "SpecialToken";
        int64_t segment;
        join(path, what, "type_id");
        TRY(json_get_int(host, piece, path, 0, 255, &segment));
        join(path, what, "id");
        TRY(json_get_string(host, piece, path, &id));
        if (what[1] == 'p') {
            TRY(read_special_ids(host, root, section, id, tokenizer, (uint8_t)segment, template));
            continue;
        }
        FAIL_IF(strcmp(id, "A") != 0 && strcmp(id, "B") != 0, host, HASHATTN_BAD_FILE,
                "'%s.%s': sequence '%.20s' is neither A nor B", section, name, id);
        uses[id[0] - 'A']++;
        TRY(template_add(host, template, (struct template_piece){id[0] - 'A', 0, (uint8_t)segment}));
    }
    FAIL_IF(uses[0] != 1 || uses[1] != texts - 1, host, HASHATTN_BAD_FILE,
            "'%s.%s' has text A %d times and B %d times, %s are needed", section, name, uses[0], uses[1],
            texts == 1 ? "1 and 0" : "1 and 1");
    return HASHATTN_OK;
}

static hashattn_status read_post_processor(struct host *host, const struct json *root, const char *section,
                                           struct tokenizer *tokenizer)
{
    const char *type;
    uint32_t start, end;
    TRY(get_type(host, root, section, &type));
    if (type == NULL)
        return HASHATTN_OK;
    if (is(type, "ByteLevel"))
        return read_trim(host, root, section, tokenizer);
    if (is(type, "TemplateProcessing")) {
        TRY(read_template(host, root, section, "single", 1, tokenizer, &tokenizer->templates[0]));
        return read_template(host, root, section, "pair", 2, tokenizer, &tokenizer->templates[1]);
    }
    bool is_roberta = is(type, "RobertaProcessing");
    if (!is_roberta && !is(type, "BertProcessing"))
        return fail_type(host, section, type,
                         "ByteLevel, BertProcessing, RobertaProcessing, TemplateProcessing and null");
    TRY(get_special(host, root, section, "cls", tokenizer, &start));
    TRY(get_special(host, root, section, "sep", tokenizer, &end));
    if (!is_roberta) {
        template_bert(tokenizer->templates, start, end);
        return HASHATTN_OK;
    }
    template_roberta(tokenizer->templates, start, end);
    return read_trim(host, root, section, tokenizer);
}

/* One post-processor, or a Sequence of some. */
static hashattn_status read_post_processors(struct host *host, const struct json *root,
                                            struct tokenizer *tokenizer)
{
    const char *type;
    const struct json *list;
    TRY(get_type(host, root, "post_processor", &type));
    if (!is(type, "Sequence"))
        return read_post_processor(host, root, "post_processor", tokenizer);
    TRY(json_get_array(host, root, "post_processor.processors", &list));
    for (size_t i = 0; i < json_count(list); i++) {
        char section[PATH / 2];
        snprintf(section, sizeof section, "post_processor.processors.%zu", i);
        TRY(read_post_processor(host, root, section, tokenizer));
    }
    return HASHATTN_OK;
}

static hashattn_status read_decoder(struct host *host, const struct json *root, struct tokenizer *tokenizer)
{
    const char *type, *prefix, *section = "decoder";
    TRY(get_type(host, root, section, &type));
    if (type == NULL)
        return HASHATTN_OK;
    if (is(type, "ByteLevel")) {
        tokenizer->decoder = DECODER_BYTE_LEVEL;
        return HASHATTN_OK;
    }
    if (!is(type, "WordPiece"))
        return fail_type(host, section, type, "ByteLevel, WordPiece and null");
    tokenizer->decoder = DECODER_WORDPIECE;
    TRY(get_flag(host, root, section, "cleanup", true, &tokenizer->decoder_cleanup));
    TRY(json_get_string(host, root, "decoder.prefix", &prefix));
    size_t size = strlen(prefix);
    FAIL_IF(size >= WORDPIECE_PREFIX, host, HASHATTN_BAD_FILE,
            "'decoder.prefix' has %zu bytes, at most %d are allowed", size, WORDPIECE_PREFIX - 1);
    memcpy(tokenizer->decoder_prefix, prefix, size + 1);
    return HASHATTN_OK;
}

static hashattn_status read_all(struct host *host, const struct json *root, struct tokenizer *tokenizer)
{
    const struct json *object;
    TRY(json_get_object(host, root, "", &object));
    TRY(read_normalizer(host, root, tokenizer));
    TRY(read_model(host, root, tokenizer));
    TRY(read_all_added(host, root, tokenizer));
    TRY(read_pre_tokenizer(host, root, tokenizer));
    TRY(read_post_processors(host, root, tokenizer));
    return read_decoder(host, root, tokenizer);
}

hashattn_status tokenizer_from_json(struct host *host, const struct json *root, struct tokenizer **tokenizer)
{
    struct tokenizer *made;
    *tokenizer = NULL;
    TRY(tokenizer_new(host, &made));
    hashattn_status status = read_all(host, root, made);
    if (status != HASHATTN_OK)
        tokenizer_free(host, made);
    else
        *tokenizer = made;
    return status;
}

hashattn_status tokenizer_read_json(struct host *host, const char *directory, struct tokenizer **tokenizer)
{
    char path[FILE_PATH];
    struct json *root;
    *tokenizer = NULL;
    struct tokenizer_settings settings;
    TRY(file_join(host, directory, "tokenizer.json", path, sizeof path));
    TRY(json_read_file(host, path, &root));
    hashattn_status status = tokenizer_from_json(host, root, tokenizer);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    json_free(root);
    TRY(status);
    status = settings_read(host, directory, &settings);
    if (status == HASHATTN_OK)
        status = settings_adjust(host, &settings, *tokenizer);
    settings_free(&settings);
    if (status != HASHATTN_OK) {
        tokenizer_free(host, *tokenizer);
        *tokenizer = NULL;
    }
    return status;
}
