/* The largest logit is taken out before exp, so nothing overflows. SPDX-License-Identifier: Apache-2.0 */
#include "nn/loss.h"

#include <assert.h>
#include <math.h>

double loss_cross_entropy(const float *logits, const int32_t *labels, size_t n, size_t classes,
                          size_t mean_over, float *dlogits)
{
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = logits + i * classes;
        assert(labels[i] >= 0 && (size_t)labels[i] < classes);
        size_t label = (size_t)labels[i];
        double largest = (double)row[0], sum = 0;
        for (size_t c = 1; c < classes; c++)
            largest = (double)row[c] > largest ? (double)row[c] : largest;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)row[c] - largest);
        loss += log(sum) - ((double)row[label] - largest);
        for (size_t c = 0; dlogits != NULL && c < classes; c++)
            dlogits[i * classes + c] =
                (float)((exp((double)row[c] - largest) / sum - (c == label ? 1 : 0)) / (double)mean_over);
    }
    return n == 0 ? 0 : loss / (double)mean_over;
}
