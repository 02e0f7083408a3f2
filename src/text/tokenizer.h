/* Tokenizers: text to ids and back. Two kinds: byte-level BPE (GPT-2, RoBERTa, and vocabularies learned here)
   and WordPiece (BERT). Ids, offsets and decoded text equal those of the reference library (pip
   `tokenizers`); docs/FORMATS.md lists what is read and what is refused.

   A tokenizer is constant after loading, so threads may share it. Each thread encodes with an encoder of its
   own, which holds the cache of words and the arrays of results.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/lines.h"
#include "text/vocabulary.h"

struct tokenizer;

/* Reads tokenizer.json if the directory has one, otherwise vocab.json and merges.txt, otherwise encoder.json
   and vocab.bpe, otherwise vocab.txt. BAD_FILE: a file is missing, broken or needs what is not supported
   here; the message names the file and the line or key. */
hashattn_status tokenizer_load(struct host *host, const char *directory, struct tokenizer **tokenizer);
/* *is: true if the directory has a file of a tokenizer. */
hashattn_status tokenizer_is_in(struct host *host, const char *directory, bool *is);
void tokenizer_free(struct host *host, struct tokenizer *tokenizer); /* NULL is allowed */

/* One more than the largest id, at most VOCABULARY_MOST_IDS: the rows that an embedding needs. */
size_t tokenizer_num_ids(const struct tokenizer *tokenizer);
/* The token of an id as the vocabulary writes it ("\u0120the" for " the"); bytes is NULL if no token has this
   id. */
struct piece tokenizer_token(const struct tokenizer *tokenizer, uint32_t id);
/* The id of a token as the vocabulary writes it; false if there is none. */
bool tokenizer_find(const struct tokenizer *tokenizer, struct piece token, uint32_t *id);
/* True for special tokens, which decoding may skip. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);

/* True if letters are read in lower case. */
bool tokenizer_lowers(const struct tokenizer *tokenizer);

/* Tokens that models need by their role: those that tokenizer_config.json names (cls_token or bos_token,
   sep_token or eos_token, and so on), otherwise those with the names of RoBERTa, BERT or GPT-2. */
enum token_role {
    TOKEN_START,   /* <s>, [CLS] or <|endoftext|> */
    TOKEN_END,     /* </s>, [SEP] or <|endoftext|> */
    TOKEN_PAD,     /* <pad> or [PAD] */
    TOKEN_UNKNOWN, /* <unk> or [UNK] */
    TOKEN_MASK,    /* <mask> or [MASK] */
    TOKEN_ROLES,
};
/* Of a template for pairs with a single segment: all after the special token that ends the first text becomes
   segment 1. Another program then sees the segments of a model that was trained on them. */
void tokenizer_separate_pair(struct tokenizer *tokenizer);

/* False if the tokenizer has no token of this role. */
bool tokenizer_role(const struct tokenizer *tokenizer, enum token_role role, uint32_t *id);

/* ---- encoding ------------------------------------------------------------------------------------------ */

struct encode_options {
    size_t max_tokens;   /* with special tokens; 0: no limit. The end of the text is cut, and not read. */
    bool special_tokens; /* add those of the post-processor, for instance <s> and </s> */
    bool offsets;        /* compute begins and ends; costs about a tenth of the time */
};

/* The arrays belong to the encoder and are valid until its next call. */
struct encoding {
    const uint32_t *ids;         /* (count) */
    const uint8_t *segments;     /* (count) type ids of the post-processor: 0 or 1 */
    const size_t *begins, *ends; /* (count) token i is bytes begins[i] .. ends[i] of its text; 0, 0 for a
                                    token that was added; NULL unless asked for */
    size_t count;
    bool truncated; /* the text has more tokens */
};

struct encoder;
hashattn_status encoder_new(struct host *host, const struct tokenizer *tokenizer, struct encoder **encoder);
void encoder_free(struct encoder *encoder); /* NULL is allowed */

/* Encodes a text of any bytes. Bytes that are not UTF-8 are byte tokens of a byte-level vocabulary; WordPiece
   reads each as U+FFFD. Fails only without memory, and with INVALID if max_tokens has no room for the special
   tokens. */
hashattn_status encoder_encode(struct encoder *encoder, struct piece text,
                               const struct encode_options *options, struct encoding *encoding);
/* The same for a pair of texts. Tokens beyond max_tokens are removed from the end of the longer text first,
   as in the reference's "longest_first". */
hashattn_status encoder_encode_pair(struct encoder *encoder, struct piece first, struct piece second,
                                    const struct encode_options *options, struct encoding *encoding);

/* ---- decoding ------------------------------------------------------------------------------------------ */

/* The text of ids, with a NUL that *size does not count; the caller frees it with memory_free. It is UTF-8:
   byte tokens that form no character become U+FFFD. INVALID: an id without a token, with its position. */
hashattn_status tokenizer_decode(struct host *host, const struct tokenizer *tokenizer, const uint32_t *ids,
                                 size_t count, bool skip_special, char **text, size_t *size);

/* Bytes that grow. The owner frees `bytes` with memory_free. */
struct grown_text {
    char *bytes;
    size_t size, capacity;
};
/* Appends the bytes of one token, as decoding joins it to the token before it (first: there is none). They
   may be a part of a character. A special token has none. INVALID: an id without a token. */
hashattn_status tokenizer_decode_token(struct host *host, const struct tokenizer *tokenizer, uint32_t id,
                                       bool first, struct grown_text *text);

#endif
