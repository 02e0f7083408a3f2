/* A table of words in a head and tails, as adaptive softmax and adaptive input have it (Grave et al. 2017,
   Baevski and Auli 2019, Transformer-XL). Ids rise as words become rare. Ids below the first cutoff are the
   head, whose rows have the width of the model; tail i, from 1, has the ids from cutoff i to the next, in
   rows of width dim / div_value^i. A projection P of the tail (width, dim) turns a row w into P^T w, the word
   as the model reads it; the output (nn/outputs/adaptive_output.h) uses both the other way round. A tail of
   the model's width has no projection. The table of the head has one more row per tail, which only the output
   uses.
   Starts: w from N(0, 1 / width) and P from N(0, start^2), so P^T w has the deviation of a row of the head,
   start.
   Cost of a word of a tail: 2 width dim operations forward, twice as many backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_WORD_TAILS_H
#define NN_WORD_TAILS_H

#include "nn/params.h"
#include "nn/rows.h"

enum { WORD_TAILS = 6 };

struct word_tail {
    size_t first, words; /* ids first .. first + words - 1 */
    size_t dim;
    bool projected;
    size_t table, projection; /* offsets of (words, dim) and, if projected, (dim, dim of the model) */
};
struct word_tails {
    size_t count; /* 0: one table has all words, and nothing below applies */
    size_t head;  /* ids below it are in the head */
    size_t dim;   /* of the model */
    struct word_tail list[WORD_TAILS];
};

/* Reads "20000,60000"; "" or NULL: no tails. INVALID, with the numbers: cutoffs are not numbers, do not rise,
   are not below vocab_size or too many, or a tail would have no width. */
hashattn_status word_tails_read(struct host *host, const char *cutoffs, size_t div_value, size_t vocab_size,
                                size_t dim, struct word_tails *tails);
/* Adds the tables and projections: "PREFIXembeddings.word_embeddings.1.weight" and "...1.projection". */
hashattn_status word_tails_describe(struct host *host, struct params *params, const char *prefix, float start,
                                    struct word_tails *tails);

/* The tail of an id; NULL: it is in the head. */
const struct word_tail *word_tails_find(const struct word_tails *tails, size_t id);

/* y (dim) = scale times a word of this tail. */
void word_tail_place(const struct word_tails *tails, const struct word_tail *tail,
                     const struct kernels *kernels, const float *values, float scale, float *y, size_t id);
/* Adds the gradients of tables and projections from dy (all rows, dim), for y of word_tail_place. Runs on the
   pool, which cuts the columns of tables: sums are in the order of the rows. */
void word_tails_backward(const struct word_tails *tails, const struct rows *rows, const float *values,
                         struct slice gradients, float scale, const float *dy, const uint32_t *ids);

#endif
