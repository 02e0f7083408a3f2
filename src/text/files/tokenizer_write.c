/* Builds the trees of tokenizer.json and tokenizer_config.json and writes each in one step.
 *
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"
#include "text/files/tokenizer_json.h"
#include "text/tokenizer_parts.h"

/* Text of a piece, with a NUL. */
struct name {
    char *text;
    size_t capacity;
};

static hashattn_status name_of(struct host *host, struct name *name, struct piece piece, struct piece more)
{
    TRY(memory_grow(host, &name->text, &name->capacity, 0, piece.size + more.size + 2, 1, "a token"));
    char *at = name->text;
    if (piece.size > 0)
        memcpy(at, piece.bytes, piece.size);
    at += piece.size;
    if (more.bytes != NULL) {
        *at++ = ' ';
        memcpy(at, more.bytes, more.size);
        at += more.size;
    }
    *at = '\0';
    return HASHATTN_OK;
}

/* Adds an empty object or array under a key. It belongs to the parent; *child is valid as long. */
static hashattn_status put_new(struct host *host, struct json *parent, const char *key, bool is_array,
                               struct json **child)
{
    TRY(is_array ? json_new_array(host, child) : json_new_object(host, child));
    return json_put(host, parent, key, *child);
}

static hashattn_status put_section(struct host *host, struct json *root, const char *key, const char *type,
                                   struct json **section)
{
    TRY(put_new(host, root, key, false, section));
    return json_put_string(host, *section, "type", type);
}

/* ---- tokens ------------------------------------------------------------------------------------------- */

static hashattn_status put_vocabulary(struct host *host, struct json *model,
                                      const struct vocabulary *vocabulary, struct name *name)
{
    struct json *object;
    TRY(put_new(host, model, "vocab", false, &object));
    for (size_t id = 0; id < vocabulary->num_ids; id++) {
        if (!vocabulary->entries[id].taken || vocabulary->entries[id].outside)
            continue;
        TRY(name_of(host, name, vocabulary_get(vocabulary, id), (struct piece){NULL, 0}));
        TRY(json_put_int(host, object, name->text, (int64_t)id));
    }
    return HASHATTN_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct bpe_merge *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static hashattn_status put_merges(struct host *host, struct json *model, const struct tokenizer *tokenizer,
                                  struct name *name)
{
    const struct bpe *bpe = &tokenizer->bpe;
    struct json *array;
    void *block;
    TRY(put_new(host, model, "merges", true, &array));
    size_t count = bpe->num_pairs;
    TRY(memory_new(host, count, sizeof(struct bpe_merge), "merges", &block));
    struct bpe_merge *merges = block;
    if (count > 0)
        memcpy(merges, bpe->merges, count * sizeof *merges);
    if (count > 1)
        qsort(merges, count, sizeof *merges, compare_ranks);
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        status = name_of(host, name, vocabulary_get(&tokenizer->vocabulary, merges[i].left),
                         vocabulary_get(&tokenizer->vocabulary, merges[i].right));
        if (status == HASHATTN_OK)
            status = json_put_string(host, array, NULL, name->text);
    }
    memory_free(host, merges);
    return status;
}

static hashattn_status put_model(struct host *host, struct json *root, const struct tokenizer *tokenizer,
                                 struct name *name)
{
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct json *model;
    bool is_bpe = tokenizer->kind == TOKENIZER_BYTE_BPE;
    TRY(put_section(host, root, "model", is_bpe ? "BPE" : "WordPiece", &model));
    uint32_t unknown = is_bpe ? tokenizer->bpe.unknown : tokenizer->wordpiece.unknown;
    if (unknown != BPE_NONE) {
        TRY(name_of(host, name, vocabulary_get(vocabulary, unknown), (struct piece){NULL, 0}));
        TRY(json_put_string(host, model, "unk_token", name->text));
    }
    if (!is_bpe) {
        const struct wordpiece *wordpiece = &tokenizer->wordpiece;
        TRY(name_of(host, name, (struct piece){wordpiece->prefix, wordpiece->prefix_size},
                    (struct piece){NULL, 0}));
        TRY(json_put_string(host, model, "continuing_subword_prefix", name->text));
        TRY(json_put_int(host, model, "max_input_chars_per_word", (int64_t)wordpiece->max_characters));
    }
    TRY(put_vocabulary(host, model, vocabulary, name));
    return is_bpe ? put_merges(host, model, tokenizer, name) : HASHATTN_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Both sets, by id. A key of ours, which the reference does not read, says that a token has a role that its
   name does not tell. */
static hashattn_status put_added(struct host *host, struct json *root, const struct tokenizer *tokenizer,
                                 struct name *name)
{
    struct json *array, *row;
    const struct added_tokens *raw = &tokenizer->raw, *normalized = &tokenizer->normalized;
    size_t count = raw->count + normalized->count;
    void *block;
    TRY(put_new(host, root, "added_tokens", true, &array));
    TRY(memory_new(host, count, sizeof(struct added_token), "added tokens", &block));
    struct added_token *tokens = block;
    if (raw->count > 0)
        memcpy(tokens, raw->list, raw->count * sizeof *tokens);
    if (normalized->count > 0)
        memcpy(tokens + raw->count, normalized->list, normalized->count * sizeof *tokens);
    if (count > 1)
        qsort(tokens, count, sizeof *tokens, compare_ids);
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count; i++) {
        const struct added_token *token = &tokens[i];
        TRY_DONE(put_new(host, array, NULL, false, &row));
        TRY_DONE(json_put_int(host, row, "id", token->id));
        /* The set has the normalized content, the vocabulary the original. */
        TRY_DONE(name_of(host, name, tokenizer_token(tokenizer, token->id), (struct piece){NULL, 0}));
        TRY_DONE(json_put_string(host, row, "content", name->text));
        TRY_DONE(json_put_bool(host, row, "single_word", token->single_word));
        TRY_DONE(json_put_bool(host, row, "lstrip", token->lstrip));
        TRY_DONE(json_put_bool(host, row, "rstrip", token->rstrip));
        TRY_DONE(json_put_bool(host, row, "normalized", token->normalized));
        TRY_DONE(json_put_bool(host, row, "special", token->special));
        for (size_t role = 0; role < TOKEN_ROLES; role++)
            if (tokenizer->roles[role] == token->id)
                TRY_DONE(json_put_bool(host, row, token_role_names[role], true));
    }
done:
    memory_free(host, tokens);
    return status;
}

/* ---- the other sections ------------------------------------------------------------------------------- */

static hashattn_status put_normalizer(struct host *host, struct json *root, const struct tokenizer *tokenizer)
{
    const struct bert_normalizer *normalizer = &tokenizer->normalizer;
    struct json *section;
    if (!tokenizer->has_normalizer)
        return HASHATTN_OK;
    TRY(put_section(host, root, "normalizer", "BertNormalizer", &section));
    TRY(json_put_bool(host, section, "clean_text", normalizer->clean));
    TRY(json_put_bool(host, section, "handle_chinese_chars", normalizer->ideographs));
    TRY(json_put_bool(host, section, "strip_accents", normalizer->strip));
    return json_put_bool(host, section, "lowercase", normalizer->lower);
}

static hashattn_status put_byte_level(struct host *host, struct json *parent, const char *key,
                                      bool prefix_space, bool trim)
{
    struct json *section;
    TRY(put_section(host, parent, key, "ByteLevel", &section));
    TRY(json_put_bool(host, section, "add_prefix_space", prefix_space));
    TRY(json_put_bool(host, section, "trim_offsets", trim));
    return json_put_bool(host, section, "use_regex", true);
}

/* [token, id] */
static hashattn_status put_pair(struct host *host, struct json *section, const char *key,
                                const struct tokenizer *tokenizer, uint32_t id, struct name *name)
{
    struct json *array;
    TRY(put_new(host, section, key, true, &array));
    TRY(name_of(host, name, tokenizer_token(tokenizer, id), (struct piece){NULL, 0}));
    TRY(json_put_string(host, array, NULL, name->text));
    return json_put_int(host, array, NULL, id);
}

static hashattn_status put_roberta(struct host *host, struct json *root, const struct tokenizer *tokenizer,
                                   struct name *name)
{
    const struct template_piece *pieces = tokenizer->templates[0].pieces;
    struct json *section;
    TRY(put_section(host, root, "post_processor", "RobertaProcessing", &section));
    TRY(put_pair(host, section, "sep", tokenizer, pieces[2].id, name));
    TRY(put_pair(host, section, "cls", tokenizer, pieces[0].id, name));
    TRY(json_put_bool(host, section, "trim_offsets", tokenizer->trim_offsets));
    return json_put_bool(host, section, "add_prefix_space", tokenizer->trim_prefix_space);
}

/* One of the two templates, and the special tokens that it uses. */
static hashattn_status put_template(struct host *host, struct json *section, const char *key,
                                    const struct token_template *template, struct json *table,
                                    const struct tokenizer *tokenizer, struct name *name)
{
    struct json *array, *row, *piece, *list;
    TRY(put_new(host, section, key, true, &array));
    for (size_t i = 0; i < template->count; i++) {
        const struct template_piece *from = &template->pieces[i];
        TRY(put_new(host, array, NULL, false, &row));
        TRY(put_new(host, row, from->text >= 0 ? "Sequence" : "SpecialToken", false, &piece));
        if (from->text >= 0) {
            TRY(json_put_string(host, piece, "id", from->text == 0 ? "A" : "B"));
        } else {
            TRY(name_of(host, name, tokenizer_token(tokenizer, from->id), (struct piece){NULL, 0}));
            TRY(json_put_string(host, piece, "id", name->text));
            TRY(put_new(host, table, name->text, false, &row));
            TRY(json_put_string(host, row, "id", name->text));
            TRY(put_new(host, row, "ids", true, &list));
            TRY(json_put_int(host, list, NULL, from->id));
            TRY(put_new(host, row, "tokens", true, &list));
            TRY(json_put_string(host, list, NULL, name->text));
        }
        TRY(json_put_int(host, piece, "type_id", from->segment));
    }
    return HASHATTN_OK;
}

static hashattn_status put_templates(struct host *host, struct json *parent, const char *key,
                                     const struct tokenizer *tokenizer, struct name *name)
{
    struct json *section, *table;
    TRY(json_new_object(host, &table));
    hashattn_status status = put_section(host, parent, key, "TemplateProcessing", &section);
    if (status == HASHATTN_OK)
        status = put_template(host, section, "single", &tokenizer->templates[0], table, tokenizer, name);
    if (status == HASHATTN_OK)
        status = put_template(host, section, "pair", &tokenizer->templates[1], table, tokenizer, name);
    if (status == HASHATTN_OK)
        return json_put(host, section, "special_tokens", table);
    json_free(table);
    return status;
}

static bool is_same(const struct token_template *a, const struct token_template *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->pieces[i].text != b->pieces[i].text || a->pieces[i].segment != b->pieces[i].segment ||
            (a->pieces[i].text < 0 && a->pieces[i].id != b->pieces[i].id))
            return false;
    return true;
}

static hashattn_status put_post_processor(struct host *host, struct json *root,
                                          const struct tokenizer *tokenizer, struct name *name)
{
    const struct token_template *templates = tokenizer->templates;
    struct token_template known[2];
    template_plain(known);
    bool prefix = tokenizer->trim_prefix_space, trim = tokenizer->trim_offsets;
    if (is_same(&templates[0], &known[0]) && is_same(&templates[1], &known[1]))
        return tokenizer->kind == TOKENIZER_BYTE_BPE
                   ? put_byte_level(host, root, "post_processor", prefix, trim)
                   : HASHATTN_OK;
    if (templates[0].count == 3) {
        template_roberta(known, templates[0].pieces[0].id, templates[0].pieces[2].id);
        if (is_same(&templates[0], &known[0]) && is_same(&templates[1], &known[1]))
            return put_roberta(host, root, tokenizer, name);
    }
    if (!trim)
        return put_templates(host, root, "post_processor", tokenizer, name);
    struct json *section, *array;
    TRY(put_section(host, root, "post_processor", "Sequence", &section));
    TRY(put_new(host, section, "processors", true, &array));
    TRY(put_byte_level(host, array, NULL, prefix, trim));
    return put_templates(host, array, NULL, tokenizer, name);
}

static hashattn_status put_decoder(struct host *host, struct json *root, const struct tokenizer *tokenizer)
{
    struct json *section;
    if (tokenizer->decoder == DECODER_BYTE_LEVEL)
        return put_byte_level(host, root, "decoder", true, true);
    if (tokenizer->decoder == DECODER_JOIN)
        return HASHATTN_OK;
    TRY(put_section(host, root, "decoder", "WordPiece", &section));
    TRY(json_put_string(host, section, "prefix", tokenizer->decoder_prefix));
    return json_put_bool(host, section, "cleanup", tokenizer->decoder_cleanup);
}

static hashattn_status put_all(struct host *host, struct json *root, const struct tokenizer *tokenizer,
                               struct name *name)
{
    struct json *section;
    TRY(json_put_string(host, root, "version", "1.0"));
    TRY(put_added(host, root, tokenizer, name));
    TRY(put_normalizer(host, root, tokenizer));
    if (tokenizer->kind == TOKENIZER_BYTE_BPE)
        TRY(put_byte_level(host, root, "pre_tokenizer", tokenizer->prefix_space, true));
    else
        TRY(put_section(host, root, "pre_tokenizer", "BertPreTokenizer", &section));
    TRY(put_post_processor(host, root, tokenizer, name));
    TRY(put_decoder(host, root, tokenizer));
    return put_model(host, root, tokenizer, name);
}

hashattn_status tokenizer_write_json(struct host *host, const char *path, const struct tokenizer *tokenizer)
{
    struct json *root;
    struct name name = {.text = NULL};
    TRY(json_new_object(host, &root));
    hashattn_status status = put_all(host, root, tokenizer, &name);
    if (status == HASHATTN_OK)
        status = json_write_file(host, path, root);
    json_free(root);
    memory_free(host, name.text);
    return status;
}

static hashattn_status put_roles(struct host *host, struct json *root, const struct tokenizer *tokenizer,
                                 struct name *name)
{
    static const struct {
        const char *key;
        enum token_role role;
    } keys[] = {{"bos_token", TOKEN_START}, {"cls_token", TOKEN_START},   {"eos_token", TOKEN_END},
                {"sep_token", TOKEN_END},   {"unk_token", TOKEN_UNKNOWN}, {"pad_token", TOKEN_PAD},
                {"mask_token", TOKEN_MASK}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t id;
        if (!tokenizer_role(tokenizer, keys[i].role, &id))
            continue;
        TRY(name_of(host, name, tokenizer_token(tokenizer, id), (struct piece){NULL, 0}));
        TRY(json_put_string(host, root, keys[i].key, name->text));
    }
    return HASHATTN_OK;
}

/* What the tokenizer returns. */
static hashattn_status put_inputs(struct host *host, struct json *root, bool segments)
{
    static const char *const names[] = {"input_ids", "token_type_ids", "attention_mask"};
    struct json *array;
    TRY(put_new(host, root, "model_input_names", true, &array));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (segments || i != 1)
            TRY(json_put_string(host, array, NULL, names[i]));
    return HASHATTN_OK;
}

hashattn_status tokenizer_write_config(struct host *host, const char *path, const struct tokenizer *tokenizer,
                                       size_t max_tokens, bool segments)
{
    struct json *root;
    struct name name = {.text = NULL};
    TRY(json_new_object(host, &root));
    hashattn_status status = json_put_string(host, root, "tokenizer_class", "PreTrainedTokenizerFast");
    if (status == HASHATTN_OK)
        status = json_put_int(host, root, "model_max_length", (int64_t)max_tokens);
    if (status == HASHATTN_OK)
        status = put_inputs(host, root, segments);
    if (status == HASHATTN_OK)
        status = put_roles(host, root, tokenizer, &name);
    if (status == HASHATTN_OK)
        status = json_write_file(host, path, root);
    json_free(root);
    memory_free(host, name.text);
    return status;
}
