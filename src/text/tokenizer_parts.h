/* The struct of a tokenizer, for the files that read, write and run one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/added_tokens.h"
#include "text/bert_text.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

enum tokenizer_kind {
    TOKENIZER_BYTE_BPE,  /* words of byte_level.h, tokens of bpe.h */
    TOKENIZER_WORDPIECE, /* words of bert_text.h, tokens of wordpiece.h */
};

enum tokenizer_decoder {
    DECODER_JOIN, /* tokens, separated by spaces */
    DECODER_BYTE_LEVEL,
    DECODER_WORDPIECE,
};

/* The ids of one or two texts with the special tokens around them. */
enum { TEMPLATE_MOST = 16 };
struct template_piece {
    int text;    /* 0: the first text, 1: the second; -1: a special token */
    uint32_t id; /* of the special token */
    uint8_t segment;
};
struct token_template {
    struct template_piece pieces[TEMPLATE_MOST];
    size_t count;
};

struct tokenizer {
    enum tokenizer_kind kind;
    struct vocabulary vocabulary; /* of the model, and the added tokens */
    struct bpe bpe;
    struct wordpiece wordpiece;
    bool has_normalizer;
    struct bert_normalizer normalizer;
    struct added_tokens raw, normalized; /* found before, and after, normalizing */
    bool prefix_space;                   /* byte level: a text that does not begin with a space gets one */
    struct token_template templates[2];  /* for one text, and for a pair */
    bool trim_offsets;                   /* offsets leave out white space at both ends of a token */
    bool trim_prefix_space;              /* but not a space that was added in front of the text */
    enum tokenizer_decoder decoder;
    char decoder_prefix[WORDPIECE_PREFIX];
    bool decoder_cleanup;
    uint32_t roles[TOKEN_ROLES]; /* ids of tokens that files give a role; TOKEN_NONE: known by their names */
};
#define TOKEN_NONE UINT32_MAX
/* Keys of an added token in tokenizer.json. */
extern const char *const token_role_names[TOKEN_ROLES];

/* Room for a tokenizer without tokens, which adds no special tokens. */
hashattn_status tokenizer_new(struct host *host, struct tokenizer **tokenizer);

/* Adds a token after the model is complete: to the vocabulary if it is new, and to the tokens that are found
   in texts. BAD_FILE: it has another id there. */
hashattn_status tokenizer_add(struct host *host, struct tokenizer *tokenizer,
                              const struct added_token *token);

/* The template without special tokens: one text, or two as segments 0 and 1. */
void template_plain(struct token_template templates[2]);
/* Appends a piece. BAD_FILE: TEMPLATE_MOST pieces are there. */
hashattn_status template_add(struct host *host, struct token_template *template, struct template_piece piece);
/* The templates of BERT: [start] A [end] B [end], segments 0 and 1; of RoBERTa: [start] A [end] [end] B
   [end], all segment 0. */
void template_bert(struct token_template templates[2], uint32_t start, uint32_t end);
void template_roberta(struct token_template templates[2], uint32_t start, uint32_t end);

#endif
