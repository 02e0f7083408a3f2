/* Reads tokenizers from the files of the original programs, vocab.json with merges.txt (encoder.json with
   vocab.bpe) and vocab.txt, with the settings of the files beside them (tokenizer_settings.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_TOKENIZER_FILES_H
#define TEXT_TOKENIZER_FILES_H

#include "text/tokenizer.h"

/* vocab.json and merges.txt: byte-level BPE. Without a tokenizer_class, it is RoBERTa's with <s> and </s> in
   the vocabulary, otherwise GPT-2's. */
hashattn_status tokenizer_read_bpe(struct host *host, const char *directory, struct tokenizer **tokenizer);
/* The same under the names that GPT-2 was released with: encoder.json and vocab.bpe. */
hashattn_status tokenizer_read_gpt2(struct host *host, const char *directory, struct tokenizer **tokenizer);
/* vocab.txt: WordPiece, one token per line, the first with id 0. In lower case and without accents, unless
   the settings have "do_lower_case": false. */
hashattn_status tokenizer_read_wordpiece(struct host *host, const char *directory,
                                         struct tokenizer **tokenizer);

struct json;
struct vocabulary;
/* Reads a vocabulary, an object of ids by token. BAD_FILE names the token. */
hashattn_status vocabulary_from_json(struct host *host, const struct json *object,
                                     struct vocabulary *vocabulary);
/* The same for the text of vocab.txt; BAD_FILE names the line. */
hashattn_status vocabulary_parse(struct host *host, const char *text, size_t size,
                                 struct vocabulary *vocabulary);
/* Reads the text of merges.txt into a tokenizer that has its vocabulary; BAD_FILE names the line. */
hashattn_status merges_parse(struct host *host, const char *text, size_t size, struct tokenizer *tokenizer);

#endif
