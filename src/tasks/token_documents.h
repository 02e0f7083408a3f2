/* Documents of users as sequences of tokens, without labels: a .txt file is one document, a .jsonl file has
   one on each line ({"text": "..."}).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TOKEN_DOCUMENTS_H
#define TASKS_TOKEN_DOCUMENTS_H

#include "tasks/dataset.h"
#include "text/tokenizer.h"

struct token_rules {
    size_t max_tokens;   /* of a document, with special tokens */
    bool truncate;       /* cut longer documents; otherwise they are refused */
    bool special_tokens; /* add those of the tokenizer, for instance <s> and </s> */
};

/* Appends the documents of a file. The data set has segments and no targets. BAD_FILE, with the file, the
   line and the numbers: a document is too long or has no tokens, a line is not JSON, or the name ends in
   neither .txt nor .jsonl. */
hashattn_status token_documents_read(struct host *host, const struct tokenizer *tokenizer,
                                     const struct token_rules *rules, const char *path,
                                     struct dataset_builder *builder);

#endif
