/* The output of a language model: after every row the chance of every word to come next, softmax(x W^T + b)
   over the whole vocabulary, with W the table of the embedding (tied: Press and Wolf 2017, Inan et al. 2017),
   and the cross-entropy of the words that did come.
   Nothing of rows x words is ever held. Forward goes through the words in chunks: the logits of a chunk live
   for one tile of rows, and a running maximum and sum per row (Milakov and Gimelshein 2018) are all that is
   kept. Backward computes the logits of a chunk again, turns them into their gradient, and multiplies that
   both ways while it is there: rows x NEXT_TOKEN_CHUNK floats.
   Cost: with n rows and V words, 2 n V dim operations forward and 6 n V dim backward (a third of them the
   logits again), all in products; an exponential per logit each way.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_NEXT_TOKEN_H
#define NN_NEXT_TOKEN_H

#include "base/memory.h"
#include "nn/embed.h"

/* Words. 128 to 1024 took the same time of a processor within 5 % (33,278 words of 128, 2,048 rows, Zen 5),
   so the one that needs little memory and leaves the pool units enough. */
enum { NEXT_TOKEN_CHUNK = 256 };

struct next_token {
    size_t dim, words;   /* token ids 1 .. words can come next: 0 is padding */
    size_t chunk;        /* words that are computed at once; what comes out does not depend on it but for
                            rounding */
    size_t weight, bias; /* offsets: of token 1 in the embedding's table, (words, dim); and (words) */
    enum precision precision;
};
/* After the embedding. "lm_head.bias" starts as zeros. */
hashattn_status next_token_describe(struct host *host, struct params *params, const struct embed *embed,
                                    struct next_token *next);

/* Its part of the workspace. Arrays of rows are (padded rows). */
struct next_token_space {
    double *loss;           /* cross-entropy of a row, in nats; 0 where nothing is asked */
    unsigned char *correct; /* 1: the word that came had the largest logit, or the first of the largest */
    /* inside */
    float *laid, *laid_backward; /* a chunk of W as products want it, turned and as it is */
    float *logits;               /* (tiles or, where there are more, threads) (ROW_TILE, chunk) */
    float *max, *sum, *factor;   /* of the running softmax */
    float *target;               /* the logit of the word that came */
    float *log_sum;              /* of the exponentials of all logits */
};
struct next_token_space next_token_lay(const struct next_token *next, const struct rows *rows, bool training,
                                       struct arena *arena);

/* x (padded rows, dim); labels (rows): the id of the token that came next, below 1 where nothing is asked.
   Fills loss and correct; returns the sum of the losses. A row's have the same bits in any batch. */
double next_token_forward(const struct next_token *next, const struct rows *rows, const float *values,
                          const struct next_token_space *space, const float *x, const int32_t *labels);
/* After a training forward, for `weight` times the sum of the losses: dx (padded rows, dim) is written, zeros
   after the last row; gradients += those of table and bias. */
void next_token_backward(const struct next_token *next, const struct rows *rows, const float *values,
                         struct slice gradients, const struct next_token_space *space, float *dx,
                         const float *x, const int32_t *labels, float weight);

#endif
