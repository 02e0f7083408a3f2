/* Text from trained language models of the task lm.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_GENERATE_H
#define HASHATTN_GENERATE_H

#include "hashattn/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_generate_options {
    size_t struct_size;
    /* Of each text. 0: 256, or as many as a model with learned positions has positions for. */
    size_t max_tokens;
    double temperature; /* divides the scores; 0: the likeliest token */
    size_t top_k;       /* only the k likeliest tokens; 0: all */
    double top_p;       /* only the likeliest tokens that together have this probability; 1: all */
    uint64_t seed;      /* of the hashing and of the choices */
    /* (num_stops) NUL-terminated texts, not empty. A text ends before the first of them. */
    const char *const *stops;
    size_t num_stops;
    size_t num_texts;
} hashattn_generate_options;
/* One text, max_tokens 0, temperature 1, all tokens, seed 0, no stop texts. */
HASHATTN_API void hashattn_generate_options_default_sized(hashattn_generate_options *options,
                                                          size_t struct_size);
HASHATTN_INLINE void hashattn_generate_options_default(hashattn_generate_options *options)
{
    hashattn_generate_options_default_sized(options, sizeof *options);
}

/* What one token adds to one text. Valid during the call. */
typedef struct hashattn_generated {
    size_t struct_size;
    size_t text; /* index of the text */
    const char
        *added; /* (size) complete UTF-8 characters and a NUL; often empty, for a byte may wait for others */
    size_t size;
    size_t tokens;            /* of the text so far */
    int done, stopped;        /* the text is complete; a stop text ended it */
    double tokens_per_second; /* since the prompt was read; texts that grow together share the time */
    size_t prompt_tokens, prompt_unknown; /* unknown: words of the prompt that are not in the vocabulary */
    double prompt_seconds;                /* to read the prompt */
    /* A mechanism of the model for which every token is a pass over all before it (lha); NULL: none. */
    const char *recomputes;
} hashattn_generated;
/* Called once after the prompt is read, with 0 tokens of text 0, then for every token of every text, those of
   one text in order. Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_generate_callback(void *user, const hashattn_generated *generated);

/* Texts that follow a prompt of `size` bytes; an empty prompt is a line feed. The prompt is read in one pass.
   A token then costs a product of a matrix and a vector per weight, and its attention: mechanisms with a
   state of constant size (stream.h) read that; softmax, and local without relative positions, read a
   key-value cache (cache.h); with any other mechanism every token is a pass over the whole text. Up to 8
   texts grow together. A text depends on the model, the prompt, the options and its index only, not on the
   number of threads or texts. REFUSED: the run is not of lm, or a mechanism cannot handle the context.
   INVALID: an option, with the number; a prompt that is not UTF-8 for a vocabulary of words; a context longer
   than learned positions, with the numbers; keys or values that a cache refuses. FAILED: a score is not
   finite. */
HASHATTN_API hashattn_status hashattn_model_generate(hashattn_model *model, const char *prompt, size_t size,
                                                     const hashattn_generate_options *options,
                                                     hashattn_generate_callback *callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
