/* Softmax cross-entropy, mean over the batch, in double. SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* logits (n, classes), labels (n) below classes. Returns the sum of -log softmax(logits)[label] divided by
   mean_over (n for the mean, more where n is a part of a step), 0 for n = 0; dlogits, if not NULL, is
   written. */
double loss_cross_entropy(const float *logits, const int32_t *labels, size_t n, size_t classes,
                          size_t mean_over, float *dlogits);

#endif
