/* The output of a language model: for every row, the probability of every id of the vocabulary,
   softmax(x W^T + b), with W the table of the embedding (tied: Press and Wolf 2017, Inan et al. 2017), and
   the cross-entropy of the ids that were asked for.
   Rows x ids are never held at once. Forward goes through the ids in chunks: the logits of a chunk live for
   one tile of rows, and each row keeps only a running maximum and sum (Milakov and Gimelshein 2018). Backward
   computes the logits of a chunk again, turns them into their gradient and multiplies it both ways while it
   is in cache: rows x TIED_OUTPUT_CHUNK floats.
   Cost, with n rows and V ids: 2 n V dim operations forward and 6 n V dim backward (a third of them the
   logits again), all in products; one exponential per logit each way. SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_TIED_OUTPUT_H
#define NN_TIED_OUTPUT_H

#include "base/memory.h"
#include "nn/embed.h"

/* Ids. 128 to 1024 took the same time on one machine within 5 % (33,278 words of 128, 2,048 rows, Zen 5), so
   this is the one that needs little memory and leaves the pool enough units. */
enum { TIED_OUTPUT_CHUNK = 256 };

struct tied_output {
    size_t dim, words;   /* ids first .. first + words - 1 can be predicted */
    size_t first;        /* 0, or the number of leading ids that are never predicted */
    size_t chunk;        /* ids computed at once; results do not depend on it but for rounding */
    size_t weight, bias; /* offsets: of id `first` in the embedding's table, (words, dim); and (words) */
    enum precision precision;
};
/* After the embedding. "lm_head.bias" starts as zeros. first < embed->vocab_size. */
hashattn_status tied_output_describe(struct host *host, struct params *params, const struct embed *embed,
                                     size_t first, struct tied_output *output);

/* Its part of the workspace. Arrays of rows are (padded rows). */
struct tied_output_space {
    double *loss;           /* cross-entropy of a row, in nats; 0 where nothing is asked */
    unsigned char *correct; /* 1: the id asked for had the largest logit, or the first of the largest */
    /* inside */
    float *laid, *laid_backward; /* a chunk of W as products want it, turned and as it is */
    float *logits;               /* (tiles or, where there are more, threads) (ROW_TILE, chunk) */
    float *max, *sum, *factor;   /* of the running softmax */
    float *target;               /* the logit of the id asked for */
    float *log_sum;              /* the logarithm of sum: of the exponentials of logits less max */
};
struct tied_output_space tied_output_lay(const struct tied_output *output, const struct rows *rows,
                                         bool training, struct arena *arena);

/* What each row is asked for. */
struct row_ids {
    const uint32_t *ids; /* (rows), in [first, first + words) where asked */
    const float
        *weights; /* (rows) of a row's loss; 0: nothing is asked. NULL: every row is asked, weight 1 */
};

/* x (padded rows, dim). Fills loss and correct; returns the weighted sum of the losses. A row's loss has the
   same bits in any batch. */
double tied_output_forward(const struct tied_output *output, const struct rows *rows, const float *values,
                           const struct tied_output_space *space, const float *x,
                           const struct row_ids *asked);
/* After a training forward, for `weight` times its sum: dx (padded rows, dim) is written (`add`: added to),
   zeros after the last row; gradients += those of table and bias. */
void tied_output_backward(const struct tied_output *output, const struct rows *rows, const float *values,
                          struct slice gradients, const struct tied_output_space *space, float *dx, bool add,
                          const float *x, const struct row_ids *asked, float weight);

#endif
