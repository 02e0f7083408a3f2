/* A running text as the ids of a language model, and ids as text: bytes, words or tokens, by the facts of lm.
   A byte is its value + 1. Words are those of words.h, with <eos> at the end of a line; written, they have a
   space between them and <eos> is a line feed. Tokens are those of each line with its line feed, as they were
   learned.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_RUNNING_TEXT_H
#define TASKS_RUNNING_TEXT_H

#include "tasks/task.h"
#include "tasks/words.h"
#include "text/tokenizer.h"

enum { RUNNING_FIRST_ID = 1, RUNNING_BYTES_VOCAB = RUNNING_FIRST_ID + 256 };

/* Takes the ids of a text in order. */
typedef hashattn_status id_taker(struct host *host, void *context, uint32_t id);

/* The words of a line without its end. BAD_FILE: it is not UTF-8. */
hashattn_status running_words(struct host *host, const struct words *words, struct piece line, id_taker *take,
                              void *context);
/* The tokens of whole lines, and of a last one without its end. */
hashattn_status running_tokens(struct host *host, struct encoder *encoder, struct piece lines, id_taker *take,
                               void *context);

/* The ids of a text, of a line feed if it has none; the caller frees *ids with memory_free. *unknown: words
   that are not in the vocabulary. INVALID: words of a text that is not UTF-8. */
hashattn_status running_text_read(struct host *host, const struct task_facts *facts, struct piece text,
                                  uint32_t **ids, size_t *count, size_t *unknown);
/* Appends the bytes that `id` adds to a text whose last id is `before`. They may be a part of a character. */
hashattn_status running_text_write(struct host *host, const struct task_facts *facts, uint32_t before,
                                   uint32_t id, struct grown_text *text);

#endif
