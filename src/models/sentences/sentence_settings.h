/* What a directory of the sentence-transformers library says about vectors of documents: modules.json (an
   encoder, its pooling, unit length), the pooling's config.json, sentence_bert_config.json and
   config_sentence_transformers.json. Modules and poolings that are not computed here are named in `refusal`,
   which counts only where the stored vectors are asked for: the encoder alone can be used.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_SENTENCE_SETTINGS_H
#define MODELS_SENTENCE_SETTINGS_H

#include "base/file.h"
#include "models/sentences/sentence_vector.h"

struct json;

enum { SENTENCE_REFUSAL = 400 };

struct sentence_settings {
    char encoder[FILE_PATH];        /* the directory with the encoder's config.json */
    bool modules;                   /* there is a modules.json */
    char refusal[SENTENCE_REFUSAL]; /* "": the stored vectors can be computed */
    enum sentence_pooling pooling;
    bool normalize;
    bool pools_prompt;   /* tokens of the prompt are pooled too */
    bool lower;          /* texts are read in lower case, whatever the tokenizer does */
    size_t max_len;      /* tokens read of a document; 0: as many as the model has positions for */
    struct json *config; /* config_sentence_transformers.json, with the prompts; or NULL */
};

/* A directory without modules.json is its own encoder, with the mean of the tokens. BAD_FILE, with the path:
   a file is broken. On failure *settings is empty. */
hashattn_status sentence_settings_read(struct host *host, const char *directory,
                                       struct sentence_settings *settings);
void sentence_settings_free(struct sentence_settings *settings);

/* *prompt: the stored text of this name, valid as long as the settings. name NULL: the default one of the
   files, "" if there is none. INVALID, with the names: there is no such prompt. */
hashattn_status sentence_prompt(struct host *host, const struct sentence_settings *settings, const char *name,
                                const char **prompt);

#endif
