/* The largest logit is subtracted before exp, so nothing overflows.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/loss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double loss_cross_entropy(const float *logits, const uint32_t *labels, const float *weights, size_t n,
                          size_t classes, double mean_over, float *dlogits)
{
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = logits + i * classes;
        double weight = weights == NULL ? 1 : (double)weights[i];
        if (weight == 0) {
            if (dlogits != NULL)
                memset(dlogits + i * classes, 0, classes * sizeof *dlogits);
            continue;
        }
        assert(labels[i] < classes);
        size_t label = labels[i];
        double largest = (double)row[0], sum = 0;
        for (size_t c = 1; c < classes; c++)
            largest = (double)row[c] > largest ? (double)row[c] : largest;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)row[c] - largest);
        loss += weight * (log(sum) - ((double)row[label] - largest));
        for (size_t c = 0; dlogits != NULL && c < classes; c++)
            dlogits[i * classes + c] =
                (float)(weight * (exp((double)row[c] - largest) / sum - (c == label ? 1 : 0)) / mean_over);
    }
    return loss;
}
