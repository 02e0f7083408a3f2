/* The order in which files win is that of the library, version 5: added_tokens_decoder of
   tokenizer_config.json, then special_tokens_map.json with added_tokens.json, then the other keys of
   tokenizer_config.json.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/files/tokenizer_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"

/* ---- files --------------------------------------------------------------------------------------------- */

static hashattn_status read_object(struct host *host, const char *directory, const char *name,
                                   struct json **root)
{
    char path[FILE_PATH];
    const struct json *object;
    TRY(file_join(host, directory, name, path, sizeof path));
    if (!file_exists(path))
        return HASHATTN_OK;
    TRY(json_read_file(host, path, root));
    hashattn_status status = json_get_object(host, *root, "", &object);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

hashattn_status settings_read(struct host *host, const char *directory, struct tokenizer_settings *settings)
{
    hashattn_status status;
    *settings = (struct tokenizer_settings){.config = NULL};
    TRY_DONE(read_object(host, directory, "tokenizer_config.json", &settings->config));
    TRY_DONE(read_object(host, directory, "special_tokens_map.json", &settings->map));
    TRY_DONE(read_object(host, directory, "added_tokens.json", &settings->added));
    status = read_object(host, directory, "config.json", &settings->model);
done:
    if (status != HASHATTN_OK)
        settings_free(settings);
    return status;
}

void settings_free(struct tokenizer_settings *settings)
{
    json_free(settings->config);
    json_free(settings->map);
    json_free(settings->added);
    json_free(settings->model);
    *settings = (struct tokenizer_settings){.config = NULL};
}

/* ---- classes ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name; /* without "Tokenizer" and "TokenizerFast" */
    enum tokenizer_family family;
} classes[] = {
    {"Bert", FAMILY_BERT},
    {"DistilBert", FAMILY_BERT},
    {"Electra", FAMILY_BERT},
    {"MobileBert", FAMILY_BERT},
    {"LayoutLM", FAMILY_BERT},
    {"ConvBert", FAMILY_BERT},
    {"SqueezeBert", FAMILY_BERT},
    {"RetriBert", FAMILY_BERT},
    {"Lxmert", FAMILY_BERT},
    {"Realm", FAMILY_BERT},
    {"DPRContextEncoder", FAMILY_BERT},
    {"DPRQuestionEncoder", FAMILY_BERT},
    {"DPRReader", FAMILY_BERT},
    {"Roberta", FAMILY_ROBERTA},
    {"Bart", FAMILY_ROBERTA},
    {"Longformer", FAMILY_ROBERTA},
    {"LED", FAMILY_ROBERTA},
    {"Mvp", FAMILY_ROBERTA},
    {"GPT2", FAMILY_GPT2},
    {"CodeGen", FAMILY_GPT2},
};

static enum tokenizer_family family_of(const char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        size_t size = strlen(classes[i].name);
        if (strncmp(name, classes[i].name, size) == 0 &&
            (strcmp(name + size, "Tokenizer") == 0 || strcmp(name + size, "TokenizerFast") == 0))
            return classes[i].family;
    }
    return FAMILY_ANY;
}

/* Refuses any value of a key but one. */
static hashattn_status only(struct host *host, const struct tokenizer_settings *settings, const char *key,
                            const char *supported)
{
    const char *text;
    if (json_is_absent(settings->config, key))
        return HASHATTN_OK;
    TRY(json_get_string(host, settings->config, key, &text));
    FAIL_IF(strcmp(text, supported) != 0, host, HASHATTN_BAD_FILE,
            "%s '%.60s' is not supported; supported: %s", key, text, supported);
    return HASHATTN_OK;
}

hashattn_status settings_family(struct host *host, const struct tokenizer_settings *settings,
                                enum tokenizer_kind kind, enum tokenizer_family *family)
{
    static const char key[] = "tokenizer_class";
    const struct json *from = json_is_absent(settings->config, key) ? settings->model : settings->config;
    const char *name;
    bool split = false;
    *family = FAMILY_ANY;
    if (!json_is_absent(from, key)) {
        TRY(json_get_string(host, from, key, &name));
        *family = family_of(name);
        FAIL_IF(*family == FAMILY_ANY || (*family == FAMILY_BERT) != (kind == TOKENIZER_WORDPIECE), host,
                HASHATTN_BAD_FILE, "tokenizer_class '%.60s' is not supported for %s; supported: %s", name,
                kind == TOKENIZER_WORDPIECE ? "vocab.txt" : "a vocabulary with merges",
                kind == TOKENIZER_WORDPIECE
                    ? "BertTokenizer and classes that split as it does"
                    : "RobertaTokenizer, GPT2Tokenizer and classes that split as they do");
    }
    TRY(only(host, settings, "word_tokenizer_type", "basic"));
    TRY(only(host, settings, "subword_tokenizer_type", "wordpiece"));
    TRY(settings_flag(host, settings, "split_special_tokens", &split));
    FAIL_IF(split, host, HASHATTN_BAD_FILE, "split_special_tokens is true, which is not supported");
    return HASHATTN_OK;
}

/* ---- values -------------------------------------------------------------------------------------------- */

static hashattn_status get_flag(struct host *host, const struct json *object, const char *name, bool *value)
{
    return json_is_absent(object, name) ? HASHATTN_OK : json_get_bool(host, object, name, value);
}

hashattn_status settings_flag(struct host *host, const struct tokenizer_settings *settings, const char *name,
                              bool *value)
{
    return get_flag(host, settings->config, name, value);
}

/* A token: its content, or an object with content and flags. */
static hashattn_status read_token(struct host *host, const struct json *value, struct added_token *token)
{
    const char *content = json_text(value);
    if (content == NULL) {
        TRY(json_get_string(host, value, "content", &content));
        TRY(get_flag(host, value, "special", &token->special));
        token->normalized = !token->special;
        TRY(get_flag(host, value, "normalized", &token->normalized));
        TRY(get_flag(host, value, "lstrip", &token->lstrip));
        TRY(get_flag(host, value, "rstrip", &token->rstrip));
        TRY(get_flag(host, value, "single_word", &token->single_word));
    }
    token->content = (struct piece){content, strlen(content)};
    return HASHATTN_OK;
}

/* With added_tokens_decoder the file has all tokens, and the older files beside it are not read. */
static bool has_decoder(const struct tokenizer_settings *settings)
{
    return !json_is_absent(settings->config, "added_tokens_decoder");
}

/* The value of a key; NULL if it is missing or null. */
static const struct json *value_of(const struct tokenizer_settings *settings, const char *key)
{
    if (!has_decoder(settings) && !json_is_absent(settings->map, key))
        return json_find(settings->map, key);
    return json_is_absent(settings->config, key) ? NULL : json_find(settings->config, key);
}

hashattn_status settings_special(struct host *host, const struct tokenizer_settings *settings,
                                 const char *key, struct added_token *token)
{
    const struct json *value = value_of(settings, key);
    if (value == NULL)
        return HASHATTN_OK;
    hashattn_status status = read_token(host, value, token);
    token->special = true;
    if (status != HASHATTN_OK)
        host_prefix(host, key);
    return status;
}

/* ---- tokens -------------------------------------------------------------------------------------------- */

/* Adds a token unless it is there; `special` counts even then. */
static hashattn_status add(struct host *host, struct tokenizer *tokenizer, const struct added_token *token)
{
    uint32_t id;
    if (vocabulary_find(&tokenizer->vocabulary, token->content, &id) && id == token->id &&
        tokenizer->vocabulary.entries[id].added) {
        tokenizer->vocabulary.entries[id].special |= token->special;
        return HASHATTN_OK;
    }
    return tokenizer_add(host, tokenizer, token);
}

/* The same under the id that the vocabulary has for it, or the next one. */
static hashattn_status add_next(struct host *host, struct tokenizer *tokenizer, struct added_token token)
{
    if (!vocabulary_find(&tokenizer->vocabulary, token.content, &token.id))
        token.id = (uint32_t)tokenizer->vocabulary.num_ids;
    return add(host, tokenizer, &token);
}

static int compare_ids(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The id of a key of added_tokens_decoder. */
static hashattn_status parse_id(struct host *host, const char *key, uint32_t *id)
{
    size_t digits = strspn(key, "0123456789");
    FAIL_IF(digits == 0 || digits > 7 || key[digits] != '\0', host, HASHATTN_BAD_FILE,
            "added_tokens_decoder: '%.60s' is no id", key);
    *id = (uint32_t)strtoul(key, NULL, 10);
    return HASHATTN_OK;
}

static const struct {
    const char *key;
    enum token_role role;
} role_keys[] = {{"bos_token", TOKEN_START}, {"eos_token", TOKEN_END}, {"unk_token", TOKEN_UNKNOWN},
                 {"sep_token", TOKEN_END},   {"pad_token", TOKEN_PAD}, {"cls_token", TOKEN_START},
                 {"mask_token", TOKEN_MASK}};
enum { ROLE_KEYS = sizeof role_keys / sizeof *role_keys };
static const char *const list_keys[] = {"additional_special_tokens", "extra_special_tokens"};
enum { LIST_KEYS = sizeof list_keys / sizeof *list_keys };

static hashattn_status list_content(struct host *host, const struct json *value, struct vocabulary *special)
{
    const char *content = json_text(value) != NULL ? json_text(value) : json_text(json_at(value, "content"));
    struct piece token = {content, content != NULL ? strlen(content) : 0};
    uint32_t id;
    return content == NULL || vocabulary_find(special, token, &id)
               ? HASHATTN_OK
               : vocabulary_add(host, special, token, special->count);
}

/* The contents of tokens that have a role or are listed as special. */
static hashattn_status list_special(struct host *host, const struct tokenizer_settings *settings,
                                    struct vocabulary *special)
{
    for (size_t i = 0; i < ROLE_KEYS; i++)
        TRY(list_content(host, value_of(settings, role_keys[i].key), special));
    for (size_t k = 0; k < LIST_KEYS; k++) {
        const struct json *list = value_of(settings, list_keys[k]);
        for (size_t i = 0; json_element(list, i) != NULL; i++)
            TRY(list_content(host, json_element(list, i), special));
        for (struct json_member m = json_first(list); m.key != NULL; m = json_next(m))
            TRY(list_content(host, m.value, special));
    }
    return HASHATTN_OK;
}

/* Tokens with ids, in their order. */
static hashattn_status add_with_ids(struct host *host, const struct tokenizer_settings *settings,
                                    struct tokenizer *tokenizer)
{
    bool decoder = has_decoder(settings);
    const struct json *object =
        decoder ? json_find(settings->config, "added_tokens_decoder") : settings->added;
    if (object == NULL)
        return HASHATTN_OK;
    void *block;
    size_t count = 0;
    struct vocabulary special = {.bytes = NULL};
    hashattn_status status = HASHATTN_OK;
    TRY(memory_new_zeroed(host, json_count(object), sizeof(struct added_token), "added tokens", &block));
    struct added_token *list = block;
    if (!decoder)
        TRY_DONE(list_special(host, settings, &special));
    for (struct json_member m = json_first(object); m.key != NULL; m = json_next(m)) {
        struct added_token *token = &list[count++];
        int64_t id = 0;
        if (decoder) {
            TRY_DONE(parse_id(host, m.key, &token->id));
            status = read_token(host, m.value, token);
        } else {
            token->content = (struct piece){m.key, strlen(m.key)};
            token->special = vocabulary_find(&special, token->content, &token->id);
            token->normalized = !token->special;
            status = json_get_int(host, m.value, "", 0, VOCABULARY_MOST_IDS - 1, &id);
            token->id = (uint32_t)id;
        }
        if (status != HASHATTN_OK) {
            host_prefix(host, m.key);
            goto done;
        }
    }
    if (count > 1)
        qsort(list, count, sizeof *list, compare_ids);
    for (size_t i = 0; i < count; i++)
        TRY_DONE(add(host, tokenizer, &list[i]));
done:
    vocabulary_free(host, &special);
    memory_free(host, list);
    return status;
}

static hashattn_status add_value(struct host *host, const struct json *value, const char *key,
                                 struct tokenizer *tokenizer)
{
    struct added_token token = {.special = true};
    hashattn_status status = read_token(host, value, &token);
    token.special = true;
    if (status == HASHATTN_OK)
        status = add_next(host, tokenizer, token);
    if (status != HASHATTN_OK)
        host_prefix(host, key);
    return status;
}

/* True for a key such as "image_token", which classes beyond those of role_keys have. */
static bool is_more(struct json_member member)
{
    size_t size = strlen(member.key);
    for (size_t i = 0; i < ROLE_KEYS; i++)
        if (strcmp(role_keys[i].key, member.key) == 0)
            return false;
    return size > 6 && strcmp(member.key + size - 6, "_token") == 0 && json_text(member.value) != NULL;
}

static hashattn_status add_more(struct host *host, const struct tokenizer_settings *settings,
                                struct tokenizer *tokenizer)
{
    for (struct json_member m = json_first(settings->config); m.key != NULL; m = json_next(m))
        if (is_more(m))
            TRY(add_value(host, m.value, m.key, tokenizer));
    for (size_t k = 0; k < LIST_KEYS; k++) {
        const struct json *list = value_of(settings, list_keys[k]);
        for (size_t i = 0; json_element(list, i) != NULL; i++)
            TRY(add_value(host, json_element(list, i), list_keys[k], tokenizer));
        for (struct json_member m = json_first(list); m.key != NULL; m = json_next(m))
            TRY(add_value(host, m.value, m.key, tokenizer));
    }
    return HASHATTN_OK;
}

static hashattn_status finish(struct host *host, struct tokenizer *tokenizer)
{
    TRY(added_tokens_finish(host, &tokenizer->raw));
    return added_tokens_finish(host, &tokenizer->normalized);
}

/* The key that has the role of bos_token or eos_token first; NULL for other keys. */
static const char *first_key(const char *key)
{
    return strcmp(key, "bos_token") == 0 ? "cls_token" : strcmp(key, "eos_token") == 0 ? "sep_token" : NULL;
}

/* Whether a family has a key. */
static bool has_default(const struct default_token *defaults, const char *key)
{
    while (defaults->key != NULL && strcmp(defaults->key, key) != 0)
        defaults++;
    return defaults->key != NULL;
}

/* A role that the token has by its name is not recorded. */
static void set_role(struct tokenizer *tokenizer, enum token_role role, uint32_t id)
{
    uint32_t named;
    if (!tokenizer_role(tokenizer, role, &named) || named != id)
        tokenizer->roles[role] = id;
}

hashattn_status settings_add_tokens(struct host *host, const struct tokenizer_settings *settings,
                                    const struct default_token *defaults, struct tokenizer *tokenizer)
{
    TRY(add_with_ids(host, settings, tokenizer));
    for (size_t i = 0; i < ROLE_KEYS; i++) {
        struct added_token token = {.special = true};
        const struct default_token *other = defaults;
        while (other->key != NULL && strcmp(other->key, role_keys[i].key) != 0)
            other++;
        token.lstrip = other->key != NULL && other->lstrip;
        TRY(settings_special(host, settings, role_keys[i].key, &token));
        bool given = token.content.bytes != NULL;
        if (!given && other->key != NULL)
            token.content = (struct piece){other->content, strlen(other->content)};
        if (token.content.bytes != NULL &&
            (given || vocabulary_find(&tokenizer->vocabulary, token.content, &token.id)))
            TRY(add_next(host, tokenizer, token));
        const char *first = first_key(role_keys[i].key);
        if (given &&
            (first == NULL || (!has_default(defaults, first) && value_of(settings, first) == NULL)) &&
            vocabulary_find(&tokenizer->vocabulary, token.content, &token.id))
            set_role(tokenizer, role_keys[i].role, token.id);
    }
    TRY(add_more(host, settings, tokenizer));
    return finish(host, tokenizer);
}

hashattn_status settings_adjust(struct host *host, const struct tokenizer_settings *settings,
                                struct tokenizer *tokenizer)
{
    for (size_t i = 0; i < ROLE_KEYS; i++) {
        struct added_token token = {.special = true};
        TRY(settings_special(host, settings, role_keys[i].key, &token));
        if (token.content.bytes == NULL || !vocabulary_find(&tokenizer->vocabulary, token.content, &token.id))
            continue;
        const char *first = first_key(role_keys[i].key);
        uint32_t named;
        if (first == NULL ||
            (value_of(settings, first) == NULL && !tokenizer_role(tokenizer, role_keys[i].role, &named)))
            set_role(tokenizer, role_keys[i].role, token.id);
        TRY(add(host, tokenizer, &token));
    }
    if (tokenizer->kind == TOKENIZER_BYTE_BPE)
        TRY(settings_flag(host, settings, "add_prefix_space", &tokenizer->prefix_space));
    return finish(host, tokenizer);
}
