/* The output of a language model: for every row, the probability of every id of the vocabulary, softmax(x W^T
   + b), with W the table of the embedding (tied: Press and Wolf 2017, Inan et al. 2017), and the
   cross-entropy of the targets.
   The rows x ids matrix is never stored. Forward goes through the ids in chunks: the logits of a chunk exist
   for one tile of rows, and each row keeps only a running maximum and sum (Milakov and Gimelshein 2018).
   Backward recomputes the logits of a chunk, turns them into their gradient and multiplies it with W and with
   x while it is in cache: rows x TIED_OUTPUT_CHUNK floats.
   Cost, with n rows and V ids: 2 n V dim operations forward and 6 n V dim backward (a third of them to
   recompute the logits), all in products; one exponential per logit forward and one backward.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_TIED_OUTPUT_H
#define NN_TIED_OUTPUT_H

#include "base/memory.h"
#include "nn/embed.h"

/* In ids. 128 to 1024 took the same time within 5 % on one machine (33,278 words of 128, 2,048 rows, Zen 5).
   256 needs little memory and gives the pool enough units. */
enum { TIED_OUTPUT_CHUNK = 256 };

struct tied_output {
    size_t dim, words;   /* ids first .. first + words - 1 can be predicted */
    size_t first;        /* number of leading ids that are never predicted */
    size_t classes;      /* the last of these ids are no words but classes of further words: see below */
    size_t chunk;        /* ids computed at once; changes results by rounding only */
    size_t weight, bias; /* offsets: of id `first` in the embedding's table, (words, dim); and (words) */
    enum precision precision;
};
/* Call after the embedding is described. "lm_head.bias" starts as zeros. first < embed->vocab_size. If the
   embedding has tails, this is the output of its head, with a class per tail; first < embed->tails.head. */
hashattn_status tied_output_describe(struct host *host, struct params *params, const struct embed *embed,
                                     size_t first, struct tied_output *output);

/* Its part of the workspace. Arrays per row are (padded rows). */
struct tied_output_space {
    double *loss;           /* cross-entropy of a row, in nats; 0 without a target */
    unsigned char *correct; /* 1: the target had the largest logit of the words; among equals, the first */
    float *best;            /* the largest logit of the words */
    float *classes;         /* (padded rows, classes) their logits; NULL without classes */
    /* internal */
    float *packed, *packed_backward; /* a chunk of W packed for products, transposed and as stored */
    float *logits;                   /* (number of tiles or of threads, the larger) (ROW_TILE, chunk) */
    float *max, *sum, *factor;       /* of the running softmax */
    float *target;                   /* the logit of the target */
    float *log_sum;                  /* the logarithm of the sum of exp(logit - max) */
};
struct tied_output_space tied_output_lay(const struct tied_output *output, const struct rows *rows,
                                         bool training, struct arena *arena);
/* The same for an output without classes that takes turns with one that is as wide and has as many rows: only
   the arrays per row are its own, for `padded` rows. */
struct tied_output_space tied_output_lay_beside(const struct tied_output_space *other, size_t padded,
                                                struct arena *arena);
/* The space from row `row` on. */
struct tied_output_space tied_output_from(const struct tied_output_space *space, size_t row);

/* The target of each row. */
struct row_ids {
    const uint32_t *ids;  /* (rows), in [first, first + words) for rows with a target */
    const float *weights; /* (rows) of the rows' losses; 0: no target. NULL: every row has one, weight 1 */
};

/* x (padded rows, dim). Fills loss and correct; returns the weighted sum of the losses. A row's loss has the
   same bits in any batch. */
double tied_output_forward(const struct tied_output *output, const struct rows *rows, const float *values,
                           const struct tied_output_space *space, const float *x,
                           const struct row_ids *targets);
/* The logits of all rows, (rows->count, words). Uses only space->packed and space->logits. */
void tied_output_logits(const struct tied_output *output, const struct rows *rows, const float *values,
                        const struct tied_output_space *space, float *logits, const float *x);
/* After a training forward, for `weight` times its sum: writes dx (padded rows, dim) (`add`: adds to it),
   with zeros after the last row; adds the gradients of table and bias to gradients. */
void tied_output_backward(const struct tied_output *output, const struct rows *rows, const float *values,
                          struct slice gradients, const struct tied_output_space *space, float *dx, bool add,
                          const float *x, const struct row_ids *targets, float weight);

#endif
