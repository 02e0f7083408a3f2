/* Stored models that read text: checkpoints of the transformers library (encoders of type yoso, bert,
   roberta, xlm-roberta, camembert, electra and distilbert) and runs of hashattn, with any mechanism.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_PRETRAINED_H
#define HASHATTN_PRETRAINED_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A checkpoint or a run: config.json, model.safetensors (or several files with their index), which stay
   mapped: do not overwrite them in place. A directory of the sentence-transformers library may have them in
   the folder of its first module. The context must outlive it. */
typedef struct hashattn_pretrained hashattn_pretrained;

/* attention: the mechanism instead of that of the config (see hashattn_setup_mechanism), NULL: that of the
   config. BAD_FILE, with the path: a file is missing or broken, the config asks for what is not computed
   here, or tensors do not fit it (all are named). INVALID: attention is not a mechanism for this model.
   REFUSED: the sequences of a run are no ids. */
HASHATTN_API hashattn_status hashattn_pretrained_load(hashattn_context *context, const char *directory,
                                                      const char *attention,
                                                      hashattn_pretrained **pretrained);
HASHATTN_API void hashattn_pretrained_free(hashattn_pretrained *pretrained); /* NULL is allowed */
/* Changes an option of the mechanism ("num_hashes", "128"). INVALID or REFUSED, with the model unchanged. */
HASHATTN_API hashattn_status hashattn_pretrained_set(hashattn_pretrained *pretrained, const char *name,
                                                     const char *text);

typedef struct hashattn_pretrained_info {
    size_t struct_size;
    const char *type, *mechanism; /* "bert", "softmax"; the type of a run is its task */
    size_t num_params, layers, dim;
    size_t vocab_size, num_segments;
    size_t max_len;    /* tokens of the longest sequence */
    size_t num_scores; /* ids scored by the output for masked tokens, 0: the files have none */
    size_t num_labels; /* outputs of the classifier, 0: the files have none */
    uint64_t seed;     /* of the training of a run, otherwise 0 */
} hashattn_pretrained_info;
/* Set info->struct_size first. The strings are valid until the next hashattn_pretrained_set or free. */
HASHATTN_API void hashattn_pretrained_describe(const hashattn_pretrained *pretrained,
                                               hashattn_pretrained_info *info);

/* Packed sequences of ids: sequence s is rows offsets[s] .. offsets[s + 1). Nothing is padded: a padding id
   counts as any other, also in the positions of RoBERTa's kind. */
typedef struct hashattn_sequences {
    size_t struct_size;
    size_t num_sequences;
    const size_t *offsets;   /* (num_sequences + 1), from 0 */
    const uint32_t *ids;     /* (rows) */
    const uint8_t *segments; /* (rows); NULL: all 0 */
} hashattn_sequences;

/* rows: (rows, dim), the last hidden states. INVALID, with the numbers: a sequence is empty or too long, an
   id or segment is too large. */
HASHATTN_API hashattn_status hashattn_pretrained_rows(hashattn_pretrained *pretrained,
                                                      const hashattn_sequences *sequences, uint64_t seed,
                                                      float *rows);
/* scores: (num_places, num_scores), the logits of masked tokens for the rows `places`, which rise. REFUSED:
   the files have no such output. */
HASHATTN_API hashattn_status hashattn_pretrained_scores(hashattn_pretrained *pretrained,
                                                        const hashattn_sequences *sequences, uint64_t seed,
                                                        const size_t *places, size_t num_places,
                                                        float *scores);
/* ---- text: needs the tokenizer's files in the directory (tokenizer.json, vocab.json and merges.txt,
 * encoder.json and vocab.bpe, or vocab.txt); a run whose ids are bytes or words is REFUSED ---- */

typedef struct hashattn_text_options {
    size_t struct_size;
    /* What a document's vector is: the "mean" of its tokens, its "first" token, the largest value of each
       column ("max"), or "none": a vector per token. "stored" (default): what modules.json of the
       sentence-transformers library says (mean, cls or max, and unit length), otherwise the mean. REFUSED: it
       says something else. */
    const char *pooling;
    int special_tokens; /* 1 (default): with those of the tokenizer, for instance <s> and </s> */
    int truncate;       /* 1: documents longer than max_len are cut. 0 (default): they are cut to the
                           max_seq_length of a directory of that library, and refused if there is none */
    uint64_t seed;      /* of hashing */
    int normalize;      /* 1: vectors get unit length, as they do with "stored" if the directory says so */
    /* Written before every document: the prompt of this name in config_sentence_transformers.json, or a text.
       Both NULL (default): the directory's default prompt, if it has one. */
    const char *prompt_name, *prompt;
    int lines;     /* 1: each line of a .txt file, or of standard input, is a document; 0: a file is one */
    int no_header; /* 1: the first line of a .csv or .tsv file is a document */
    /* The column of a .csv or .tsv file or the key of a .jsonl file with the text ("text"), the character
       between columns ("auto"), and the encoding ("utf-8"); NULL: those of a run's training, otherwise
       these. */
    const char *text_column, *delimiter, *encoding;
} hashattn_text_options;

/* Sets every field to its default: stored vectors, special tokens, nothing cut to max_len, seed 0. */
HASHATTN_API void hashattn_text_options_default_sized(hashattn_text_options *options, size_t struct_size);
HASHATTN_INLINE void hashattn_text_options_default(hashattn_text_options *options)
{
    hashattn_text_options_default_sized(options, sizeof *options);
}

typedef struct hashattn_embedding {
    size_t struct_size;
    size_t num_documents, num_vectors, num_cut; /* of all files */
    size_t document, first, count, dim; /* vectors [first, first + count) are those of this document */
    const float *vectors;               /* (count, dim), valid during the call */
    size_t max_tokens;                  /* longer documents are cut to */
    const char *file;                   /* that holds the document; NULL: standard input, or no file */
    const char *id;                     /* "id" of its line or record, or NULL; valid during the call */
    int id_is_number;
} hashattn_embedding;
/* Called once per document, in order. Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_embedding_callback(void *user, const hashattn_embedding *embedding);
/* The vectors of all documents of files and folders, read as hashattn_model_predict reads them ("-": standard
   input). options: NULL = the defaults. BAD_FILE, with file, line and numbers: a document is too long, empty
   or no text. */
HASHATTN_API hashattn_status hashattn_pretrained_embed(hashattn_pretrained *pretrained,
                                                       const char *const *paths, size_t num_paths,
                                                       const hashattn_text_options *options,
                                                       hashattn_embedding_callback *callback, void *user);

/* The same for UTF-8 texts in memory, such as a query; `file` and `id` are NULL, and the options about files
   change nothing. INVALID, with the place and the numbers: a text is too long, empty or no text. */
HASHATTN_API hashattn_status hashattn_pretrained_embed_texts(hashattn_pretrained *pretrained,
                                                             const char *const *texts, size_t num_texts,
                                                             const hashattn_text_options *options,
                                                             hashattn_embedding_callback *callback,
                                                             void *user);

typedef struct hashattn_guess {
    size_t struct_size;
    size_t mask, rank; /* which mask of the text, and the place among its guesses, from 0 */
    uint32_t id;
    const char *token; /* its text, valid during the call */
    double probability;
} hashattn_guess;
/* Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_guess_callback(void *user, const hashattn_guess *guess);
/* The `top` most probable tokens for each mask of a text ("Paris is the <mask> of France.", with the mask of
   the tokenizer), most probable first. INVALID: the text has no mask or is too long. REFUSED: the files have
   no output for masked tokens. */
HASHATTN_API hashattn_status hashattn_pretrained_fill_mask(hashattn_pretrained *pretrained, const char *text,
                                                           size_t top, uint64_t seed,
                                                           hashattn_guess_callback *callback, void *user);

/* Writes config.json, model.safetensors and, if there is a tokenizer, tokenizer.json and
   tokenizer_config.json to a new directory, which the transformers library opens with equal outputs. A run
   with softmax becomes a checkpoint of type bert, or roberta if it started from one; one with yoso or yoso-e
   of type yoso: the encoder with the output for masked tokens, or without one with the classifier and its
   labels, whose logits are those of predictions (not of longer texts if the run cuts their middle); a
   predicted number is in the units of its file. INVALID: the directory exists. REFUSED: a file of this type
   cannot describe the model (the message names every setting that has no place there), or the ids of a run
   are no tokens of text. */
HASHATTN_API hashattn_status hashattn_pretrained_save(hashattn_pretrained *pretrained, const char *directory);
/* The same for a run without its outputs, whatever they are. REFUSED: a checkpoint, too. */
HASHATTN_API hashattn_status hashattn_pretrained_save_encoder(hashattn_pretrained *pretrained,
                                                              const char *directory);

#ifdef __cplusplus
}
#endif
#endif
