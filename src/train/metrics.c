/* log-sum-exp around the largest logit, per example. Costs a few exponentials per example, once per batch.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/metrics.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void metrics_add(struct metrics *metrics, const float *logits, const int32_t *labels, size_t n,
                 size_t classes, float *probabilities)
{
    assert(classes >= 1);
    for (size_t i = 0; i < n; i++, logits += classes) {
        size_t best = 0;
        for (size_t c = 1; c < classes; c++)
            best = logits[c] > logits[best] ? c : best;
        double sum = 0;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)logits[c] - (double)logits[best]);
        if (labels[i] >= 0) {
            assert((size_t)labels[i] < classes);
            metrics->loss += log(sum) + (double)logits[best] - (double)logits[labels[i]];
            metrics->correct += best == (size_t)labels[i];
            metrics->count++;
        }
        if (probabilities != NULL)
            for (size_t c = 0; c < classes; c++)
                *probabilities++ = (float)(exp((double)logits[c] - (double)logits[best]) / sum);
    }
}

void metrics_add_tokens(struct metrics *metrics, const double *loss, const unsigned char *correct,
                        const int32_t *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (labels[i] < 1)
            continue;
        metrics->loss += loss[i];
        metrics->correct += correct[i];
        metrics->count++;
    }
}

double metrics_loss(const struct metrics *metrics)
{
    return metrics->count == 0 ? NAN : metrics->loss / (double)metrics->count;
}

double metrics_accuracy(const struct metrics *metrics)
{
    return metrics->count == 0 ? NAN : (double)metrics->correct / (double)metrics->count;
}

double metrics_majority(const int32_t *labels, size_t n, size_t classes, size_t *counts)
{
    size_t total = 0, largest = 0;
    memset(counts, 0, classes * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        if (labels[i] < 0)
            continue;
        assert((size_t)labels[i] < classes);
        size_t count = ++counts[labels[i]];
        largest = count > largest ? count : largest;
        total++;
    }
    return total == 0 ? NAN : (double)largest / (double)total;
}
