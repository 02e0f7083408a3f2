/* Documents of users as sequences of tokens of a stored model, without labels (documents/document_files.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TOKEN_DOCUMENTS_H
#define TASKS_TOKEN_DOCUMENTS_H

#include "tasks/documents/document.h"
#include "tasks/tokens.h"
#include "text/tokenizer.h"

struct given_texts; /* given_texts.h */

struct token_rules {
    size_t max_tokens;   /* of a document, with the prompt and special tokens */
    bool truncate;       /* cut longer documents; otherwise they are refused */
    enum text_cut cut;   /* what they lose */
    bool special_tokens; /* add those of the tokenizer, for instance <s> and </s> */
    const char *prompt;  /* written before every text; NULL: none */
    struct document_rules files;
    /* (optional) Gets the name of each document of a file. */
    hashattn_status (*name)(struct host *host, void *context, const struct document_name *name);
    void *context;
};

/* Appends the documents of a file. The data set has segments and no targets. BAD_FILE, with the file, the
   line and the numbers: a document is too long or has no tokens, or the file is not of a known format. */
hashattn_status token_documents_read(struct host *host, const struct tokenizer *tokenizer,
                                     const struct token_rules *rules, const char *path,
                                     struct dataset_builder *builder);

/* The same for texts in memory, which have no names. INVALID in place of BAD_FILE, with the place of the
 * text. */
hashattn_status token_documents_take(struct host *host, const struct tokenizer *tokenizer,
                                     const struct token_rules *rules, const struct given_texts *texts,
                                     struct dataset_builder *builder);

/* *count: tokens of the prompt before those of a text: with the special tokens that stand before, without the
   one at the end. */
hashattn_status token_prompt_length(struct host *host, const struct tokenizer *tokenizer,
                                    const struct token_rules *rules, size_t *count);

#endif
