/* Softmax cross-entropy in double.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* logits (n, classes); labels (n) below classes; weights (n) of the losses, NULL for 1, and 0 to ignore a
   label. Returns the sum of weight * -log softmax(logits)[label]. If dlogits is not NULL, writes the gradient
   of that sum divided by mean_over to it. */
double loss_cross_entropy(const float *logits, const uint32_t *labels, const float *weights, size_t n,
                          size_t classes, double mean_over, float *dlogits);

#endif
