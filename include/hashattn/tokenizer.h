/* Tokenizers: text to ids and back, and learning a vocabulary. Byte-level BPE (GPT-2, RoBERTa) and WordPiece
   (BERT), with the ids and offsets of the reference library (pip `tokenizers`), and its file formats.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_TOKENIZER_H
#define HASHATTN_TOKENIZER_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_tokenizer hashattn_tokenizer;

/* Reads tokenizer.json from a directory, or vocab.json and merges.txt, or encoder.json and vocab.bpe, or
   vocab.txt. BAD_FILE names the file and the line or key of what is broken, missing or not supported. */
HASHATTN_API hashattn_status hashattn_tokenizer_load(hashattn_context *context, const char *directory,
                                                     hashattn_tokenizer **tokenizer);
HASHATTN_API void hashattn_tokenizer_free(hashattn_tokenizer *tokenizer); /* NULL is allowed */

/* One more than the largest id: the rows that an embedding needs. */
HASHATTN_API size_t hashattn_tokenizer_num_ids(const hashattn_tokenizer *tokenizer);
/* The id of a token as the vocabulary writes it ("<mask>"); -1 if there is none. */
HASHATTN_API int64_t hashattn_tokenizer_find(const hashattn_tokenizer *tokenizer, const char *token);

typedef struct hashattn_encode_options {
    size_t struct_size;
    size_t max_tokens;  /* with special tokens; 0: no limit. The rest of the text is cut, and not read. */
    int special_tokens; /* add those of the tokenizer, for instance <s> and </s> */
    int offsets;        /* compute begins and ends */
} hashattn_encode_options;
/* No limit, no special tokens, no offsets. */
HASHATTN_API void hashattn_encode_options_default_sized(hashattn_encode_options *options, size_t struct_size);
HASHATTN_INLINE void hashattn_encode_options_default(hashattn_encode_options *options)
{
    hashattn_encode_options_default_sized(options, sizeof *options);
}

typedef struct hashattn_encoding {
    size_t struct_size;
    size_t count;
    const uint32_t *ids; /* (count), like the other arrays; valid until the next call with this tokenizer */
    const uint8_t *segments;     /* 0, or 1 for the second text of a pair */
    const size_t *begins, *ends; /* bytes begin .. end of the text; 0, 0 for special tokens that were added;
                                    NULL unless asked for */
    int truncated;               /* the text has more tokens */
} hashattn_encoding;
/* Encodes `size` bytes of any kind; a pair if `second` is not NULL, cut longest first. INVALID: max_tokens
   has no room for the special tokens. Set encoding->struct_size first. options may be NULL. One call at a
   time for each tokenizer. */
HASHATTN_API hashattn_status hashattn_tokenizer_encode(hashattn_tokenizer *tokenizer, const char *text,
                                                       size_t size, const char *second, size_t second_size,
                                                       const hashattn_encode_options *options,
                                                       hashattn_encoding *encoding);

/* Decodes ids to UTF-8 with a NUL that *size does not count; valid until the next call with this tokenizer.
   INVALID: an id without a token. */
HASHATTN_API hashattn_status hashattn_tokenizer_decode(hashattn_tokenizer *tokenizer, const uint32_t *ids,
                                                       size_t count, int skip_special, const char **text,
                                                       size_t *size);

typedef struct hashattn_learn_options {
    size_t struct_size;
    size_t vocab_size;    /* 261 to 1048576; default 30000. Fewer if the text has too few pairs. */
    size_t min_frequency; /* of a pair of tokens that becomes a token; default 2 */
    /* Called with the number of tokens so far; non-zero stops with INTERRUPTED. May be NULL. */
    int (*progress)(void *user, size_t tokens, size_t vocab_size);
    void *user;
} hashattn_learn_options;

/* Sets every field to the default above. */
HASHATTN_API void hashattn_learn_options_default_sized(hashattn_learn_options *options, size_t struct_size);
HASHATTN_INLINE void hashattn_learn_options_default(hashattn_learn_options *options)
{
    hashattn_learn_options_default_sized(options, sizeof *options);
}

/* Learns a byte-level BPE from text files ("-": standard input) of any size. Memory grows with the number of
   different words. It has the special tokens <s> <pad> </s> <unk> <mask>, ids 0 to 4, used as in RoBERTa.
   INVALID: the files have no text. */
HASHATTN_API hashattn_status hashattn_tokenizer_learn(hashattn_context *context, const char *const *files,
                                                      size_t num_files, const hashattn_learn_options *options,
                                                      hashattn_tokenizer **tokenizer);
/* Writes tokenizer.json to a directory, which is made if it does not exist. INVALID: the file is there. */
HASHATTN_API hashattn_status hashattn_tokenizer_save(hashattn_tokenizer *tokenizer, const char *directory);

#ifdef __cplusplus
}
#endif
#endif
