/* What is counted over logits: cross-entropy, accuracy, probabilities and the majority class, in double.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* Sums over examples, or over tokens where each is one to predict, so that parts can be added up. */
struct metrics {
    double loss; /* sum of cross-entropies, in nats */
    size_t correct, count;
};

/* Adds n examples: logits (n, classes); labels (n), an example with a label below 0 counts nowhere. The
   prediction is the first of the largest logits. probabilities: (n, classes) written, or NULL. */
void metrics_add(struct metrics *metrics, const float *logits, const int32_t *labels, size_t n,
                 size_t classes, float *probabilities);
/* Adds n tokens: their cross-entropies, whether the prediction was right, and labels of which those below 1
   were not asked for. */
void metrics_add_tokens(struct metrics *metrics, const double *loss, const unsigned char *correct,
                        const int32_t *labels, size_t n);
/* Means; NaN when nothing was counted. */
double metrics_loss(const struct metrics *metrics);
double metrics_accuracy(const struct metrics *metrics);

/* Largest share of one label among the labels >= 0; NaN when there is none. counts: (classes) scratch. */
double metrics_majority(const int32_t *labels, size_t n, size_t classes, size_t *counts);

#endif
