/* What stands behind the trunk of a classifier: pooling, the features of pairs, the two-layer head and the
   loss. The other thing that may stand there is next_token.h of nn. Both are given the rows of the last norm
   and give their gradient back; neither knows blocks or tiles of blocks.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_CLASSIFIER_H
#define MODELS_CLASSIFIER_H

#include "base/memory.h"
#include "nn/head.h"
#include "nn/pooling.h"

struct classifier {
    enum pooling pooling;
    bool pairs; /* an example is two sequences, and the head sees [a, b, a b, a - b] of them */
    size_t dim, max_len;
    struct head head;
};
/* dim, max_len, pooling and pairs are filled; describes the head. */
hashattn_status classifier_describe(struct host *host, struct params *params, size_t num_classes,
                                    struct classifier *classifier);

/* Its part of the workspace. */
struct classifier_space {
    float *pooled, *partial;           /* (head_rows of sequences): dim */
    float *features, *hidden, *logits; /* (head_rows of examples): 4 dim (pooled itself where an example is
                                          one sequence), 2 dim, classes */
    /* backward */
    float *dlogits, *dpooled, *dfeatures, *dhidden; /* as above */
};
struct classifier_space classifier_lay(const struct classifier *classifier, const struct rows *rows,
                                       bool training, struct arena *arena);

size_t classifier_examples(const struct classifier *classifier, const struct rows *rows);

/* logits (examples, classes) of x (padded rows, dim) is written. Returns the cross-entropy of the labels
   (examples), summed and divided by mean_over; 0 where labels is NULL. */
double classifier_forward(const struct classifier *classifier, const struct rows *rows, const float *values,
                          const struct classifier_space *space, const float *x, const int32_t *labels,
                          size_t mean_over, float *logits);
/* The gradient that a training forward with labels left, times `factor`; without one, nothing. */
void classifier_weigh(const struct classifier *classifier, const struct rows *rows,
                      const struct classifier_space *space, double factor);
/* After a training forward with labels: gradients += those of the head. */
void classifier_backward(const struct classifier *classifier, const struct rows *rows, const float *values,
                         struct slice gradients, const struct classifier_space *space);
/* Then, tile by tile: dx (n, dim), rows [first, first + n) of the batch, is written. */
void classifier_backward_rows(const struct classifier *classifier, const struct rows *rows,
                              const struct classifier_space *space, float *dx, size_t first, size_t n);

#endif
