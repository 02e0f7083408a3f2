/* Dropout (Srivastava et al. 2014), inverted: kept elements are scaled by 1 / (1 - rate). No mask is stored.
   A 16-bit draw of Philox at (key of the site, sample, row in its sequence, column) decides about each
   element, so backward repeats the draws, and neither packing nor threads change them. Eight draws per Philox
   block.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_DROPOUT_H
#define NN_DROPOUT_H

#include "nn/rows.h"

/* Elements with a draw below `threshold` are dropped. The rate is threshold / 65536 and the scale matches it
   exactly, so the expectation is the input. threshold 0: off. */
struct dropout {
    unsigned threshold;
    float scale;
};
struct dropout dropout_of(double rate); /* 0 <= rate < 1 */

/* y = mask * x on rows [first, first + n) of the batch; x and y, (n, dim), begin at row `first` and may be
   the same. Rows after the last token become zeros. Backward is the same call on the gradient. */
void dropout_rows(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                  const float *x, size_t first, size_t n, size_t dim);
/* y = residual + mask * x; y may be residual. */
void dropout_add_rows(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                      const float *residual, const float *x, size_t first, size_t n, size_t dim);
/* Recomputes y = mask * gelu(x) and slope = mask * gelu'(x) from one set of draws: what backward needs of
   GELU and the dropout after it. It is cheaper than storing y. If dropout is on, rows after the last token
   become zeros. */
void dropout_gelu_again(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                        float *slope, const float *x, size_t first, size_t n, size_t dim);

#endif
