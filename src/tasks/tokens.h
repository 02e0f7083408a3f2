/* From texts to ids, for tasks that read documents. An id is a token of a byte-level BPE learned from the
   training file, of the tokenizer of a stored model, a word (words.h), or a byte + 1. The facts of the task
   say which: `tokenizer`, `words`, or neither for bytes, as in runs of earlier versions.

   A tokenizer adds its special tokens: the learned one encloses a text in <s> and </s>, as RoBERTa's does, so
   a pretraining on its vocabulary and pooling by the first token see what they expect, and an empty text has
   tokens. They count towards max_len. A word vocabulary ends every line with <eos>. Without special tokens,
   as with bytes and the tokenizer of GPT-2, an empty text becomes a line feed, because a sequence has at
   least one token.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TOKENS_H
#define TASKS_TOKENS_H

#include "tasks/dataset.h"
#include "text/learning/word_counts.h"
#include "text/tokenizer.h"

enum token_kind { TOKENS_BPE, TOKENS_WORDS, TOKENS_BYTES };
extern const char *const token_kinds[]; /* "bpe", "words", "bytes", NULL */

enum { TOKENS_BYTES_VOCAB = 257 };

/* ---- learning ------------------------------------------------------------------------------------------ */

/* What a task's options say about its tokens. */
struct token_choice {
    enum token_kind kind;
    size_t vocab_size; /* of bpe and words, LEARN_LEAST (learn_bpe.h) or more; fewer if the text has fewer */
    struct tokenizer *given; /* of a stored model: used instead of learning; or NULL */
};
/* The usual largest length of a document: 1024, or 4096 bytes. */
size_t tokens_usual_len(const struct token_choice *choice);
/* INVALID: a stored model's tokenizer is given, and the kind is not bpe. */
hashattn_status tokens_check(struct host *host, const struct token_choice *choice);
/* Adds a text of the training file to the counts, if something is learned from them. */
hashattn_status tokens_count(struct host *host, const struct token_choice *choice, struct piece text,
                             struct word_counts *counts);
/* Sets the number of segments of pairs that are one sequence: 2 if the template of a stored model's tokenizer
   has a second one, otherwise 0; of a tokenizer that was learned 2. */
hashattn_status tokens_pair_segments(struct host *host, const struct token_choice *choice,
                                     struct task_facts *facts);
/* Sets the vocabulary in the facts, and with `given` the owner of that tokenizer, from the counts of the
   whole training file. On failure *facts stays as it was. */
hashattn_status tokens_learn(struct host *host, const struct token_choice *choice,
                             const struct word_counts *counts, struct task_facts *facts);

/* ---- encoding ------------------------------------------------------------------------------------------ */

/* What a text of more than max_len tokens loses: its end, which is then not read; or its middle, so that the
   first quarter of max_len is its beginning and the rest its end (Sun et al. 2019, "head+tail"). */
enum text_cut { CUT_END, CUT_MIDDLE };
extern const char *const text_cuts[]; /* "end", "middle", NULL */
struct text_limit {
    size_t most; /* tokens */
    enum text_cut cut;
};

/* Writes the ids of texts. */
struct text_encoder {
    const struct task_facts *facts; /* kept */
    enum text_cut cut;              /* CUT_END unless set after opening; pairs lose ends */
    struct encoder *encoder;        /* NULL: words or bytes */
    uint32_t end; /* the token after the first text of a pair; TOKENS_NO_END: there is none */
};
enum { TOKENS_NO_END = VOCABULARY_MOST_IDS };
hashattn_status text_encoder_open(struct host *host, const struct task_facts *facts,
                                  struct text_encoder *texts);
void text_encoder_close(struct text_encoder *texts); /* after a failed open too */
/* Ids of a text, with room for max_len. */
struct token_row {
    uint32_t *ids;
    uint8_t *segments; /* of the tokenizer's template, 0 for words and bytes; NULL: not wanted */
    size_t count;      /* written */
    bool cut;          /* set if a text has more, left otherwise */
};
/* Encodes a text for tokens_take: whole if its middle is cut, otherwise as much as is kept. */
hashattn_status tokens_encode(struct encoder *encoder, struct piece text, struct text_limit limit,
                              bool special_tokens, struct encoding *encoding);
/* Writes what is kept of an encoding; the row has room for limit.most. */
void tokens_take(const struct encoding *encoding, struct text_limit limit, struct token_row *tokens);
/* Writes at most facts->max_len ids. BAD_FILE: a text without tokens. */
hashattn_status text_encoder_write(struct host *host, struct text_encoder *texts, struct piece text,
                                   struct token_row *tokens);
/* Writes both texts of a pair as one sequence, with the separators of the tokenizer between; the longer text
   is cut first. The second one is segment 1 if there are two segments. Needs a tokenizer. */
hashattn_status text_encoder_write_pair(struct host *host, struct text_encoder *texts,
                                        const struct piece pair[2], struct token_row *tokens);

#endif
