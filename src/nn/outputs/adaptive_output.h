/* The output of a language model over a head and tails of words (nn/word_tails.h): adaptive softmax (Grave et
   al. 2017). The head is a tied output (tied_output.h) of the frequent words with one more entry per tail,
   and a tail is one of its words, on rows projected to its width. With the tables W and projections P of the
   embedding (tied, as in Transformer-XL):
     p(w | x) = softmax(x W_0^T + b_0)_w                                    for a word of the head,
     p(w | x) = softmax(x W_0^T + b_0)_tail softmax((x P^T) W^T + b)_w      for a word of a tail.
   They sum to 1 over the vocabulary. Without tails it is the tied output, bit for bit.

   Cost: the head for every row, a tail for the rows whose target is in it, up to a multiple of ROW_STEP. A
   hit needs the largest probability of all words: a tail is computed, forward only, also for the few rows
   whose target is the best word so far while the tail as a whole is likelier.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_ADAPTIVE_OUTPUT_H
#define NN_ADAPTIVE_OUTPUT_H

#include "nn/outputs/tied_output.h"

struct adaptive_output {
    size_t first, words; /* ids first .. first + words - 1 can be predicted */
    struct tied_output head;
    const struct word_tails *tails; /* of the embedding */
    struct tied_output tail[WORD_TAILS];
};
/* Call after the embedding is described, which must stay. "lm_head.bias" and the biases of tails,
   "lm_head.1.bias", start as zeros. INVALID: no id of the head can be predicted. */
hashattn_status adaptive_output_describe(struct host *host, struct params *params, const struct embed *embed,
                                         size_t first, struct adaptive_output *output);

/* Its part of the workspace. */
struct adaptive_output_space {
    struct tied_output_space head; /* loss and correct are those of the whole output */
    /* internal, if there are tails */
    uint32_t *ids;    /* (padded) the entry of the head for each target */
    float *score;     /* (padded) logit of the target, up to what is the same for all words of the row */
    size_t *count;    /* (tails) rows of the first pass */
    float *packed;    /* a projection packed for products */
    float *x, *h;     /* (padded, dim) rows of a tail; projected */
    float *dx, *dh;   /* backward: their gradients */
    uint32_t *wanted; /* (padded) targets of these rows */
    float *weights;   /* (padded) */
    struct {
        struct tied_output_space output;
        size_t *places; /* (padded + ROW_STEP) its rows, in the order of h */
    } tail[WORD_TAILS];
};
struct adaptive_output_space adaptive_output_lay(const struct adaptive_output *output,
                                                 const struct rows *rows, bool training, struct arena *arena);

/* As tied_output_forward and tied_output_backward. */
double adaptive_output_forward(const struct adaptive_output *output, const struct rows *rows,
                               const float *values, const struct adaptive_output_space *space, const float *x,
                               const struct row_ids *targets);
void adaptive_output_backward(const struct adaptive_output *output, const struct rows *rows,
                              const float *values, struct slice gradients,
                              const struct adaptive_output_space *space, float *dx, bool add, const float *x,
                              const struct row_ids *targets, float weight);

/* For a few rows x (n, dim) that are alone: scores (n, words), the logits without tails; with tails the log
   probabilities up to a constant of the row. Products are float32 in both precisions. Reads every weight
   once, on the pool. work: (dim) floats. */
void adaptive_output_scores(const struct adaptive_output *output, const struct kernels *kernels,
                            struct pool *pool, const float *values, float *scores, const float *x, size_t n,
                            float *work);

#endif
