/* Reads and writes tokenizer.json, the format of the reference library.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include "text/tokenizer.h"

struct json;

/* Anything that is not supported is BAD_FILE with its name: docs/FORMATS.md lists what is. Truncation and
   padding are ignored; the caller decides about them. */
hashattn_status tokenizer_read_json(struct host *host, const char *directory, struct tokenizer **tokenizer);
hashattn_status tokenizer_from_json(struct host *host, const struct json *root, struct tokenizer **tokenizer);

/* Replaces a tokenizer.json atomically. The reference library and tokenizer_read_json read it back as the
   same tokenizer. */
hashattn_status tokenizer_write_json(struct host *host, const char *path, const struct tokenizer *tokenizer);
/* Writes a tokenizer_config.json, from which the transformers library knows the special tokens by their
   roles. max_tokens: of the longest text that the model takes; segments: the model has two. */
hashattn_status tokenizer_write_config(struct host *host, const char *path, const struct tokenizer *tokenizer,
                                       size_t max_tokens, bool segments);

#endif
