/* What the files beside a vocabulary say about a tokenizer: tokenizer_config.json, special_tokens_map.json
   and added_tokens.json of the transformers library, and the tokenizer_class of config.json. What would give
   other tokens than the library's, and is not computed here, is refused by its name.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_TOKENIZER_SETTINGS_H
#define TEXT_TOKENIZER_SETTINGS_H

#include "text/tokenizer_parts.h"

struct json;

/* Zeroed at first; the trees are NULL for files that are absent. */
struct tokenizer_settings {
    struct json *config; /* tokenizer_config.json */
    struct json *map;    /* special_tokens_map.json */
    struct json *added;  /* added_tokens.json: ids by content */
    struct json *model;  /* config.json */
};

/* BAD_FILE, with the path: a file is broken or no object. */
hashattn_status settings_read(struct host *host, const char *directory, struct tokenizer_settings *settings);
void settings_free(struct tokenizer_settings *settings);

/* The classes of the library that split texts alike. */
enum tokenizer_family { FAMILY_ANY, FAMILY_BERT, FAMILY_ROBERTA, FAMILY_GPT2 };
/* *family: that of tokenizer_class, or FAMILY_ANY if none is given. BAD_FILE: the class is not supported for
   a vocabulary of this kind, or words are found by other means (word_tokenizer_type: MeCab). */
hashattn_status settings_family(struct host *host, const struct tokenizer_settings *settings,
                                enum tokenizer_kind kind, enum tokenizer_family *family);
/* *value stays as it is if tokenizer_config.json has no such flag. */
hashattn_status settings_flag(struct host *host, const struct tokenizer_settings *settings, const char *name,
                              bool *value);
/* The special token that the files give under a key such as "mask_token": its content; NULL: none. Flags that
   are not given stay in *token. */
hashattn_status settings_special(struct host *host, const struct tokenizer_settings *settings,
                                 const char *key, struct added_token *token);

/* A special token that a family has under a key, if the files give no other. */
struct default_token {
    const char *key, *content;
    bool lstrip;
};
/* Adds the tokens of the files to a tokenizer whose vocabulary and model are complete: added tokens under
   their ids, then special tokens, which get the next id if the vocabulary lacks them. A default is added only
   if the vocabulary has it. defaults: ended by a key of NULL. */
hashattn_status settings_add_tokens(struct host *host, const struct tokenizer_settings *settings,
                                    const struct default_token *defaults, struct tokenizer *tokenizer);
/* What the settings change in a tokenizer that was read from tokenizer.json: roles of special tokens, and
   add_prefix_space. Tokens that are not in its vocabulary are not added. */
hashattn_status settings_adjust(struct host *host, const struct tokenizer_settings *settings,
                                struct tokenizer *tokenizer);

#endif
