/* Dropout (Srivastava et al. 2014), inverted: what stays is scaled by 1 / (1 - rate). No mask is stored: the
   fate of an element is a 16-bit draw of Philox at (key of the site, sample, row in its sequence, column), so
   backward draws the same again, and neither packing nor threads can change it. Eight draws per Philox block.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef NN_DROPOUT_H
#define NN_DROPOUT_H

#include "nn/rows.h"

/* Drops a draw below `threshold`; the rate is threshold / 65536 and the scale fits it exactly, so the
   expectation is the input. threshold 0: off. */
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
/* y = mask * gelu(x) again, and slope = mask * its derivative, from one drawing: what backward needs of GELU
   and the dropout after it, for less than keeping y costs. Rows after the last token become zeros where
   anything is dropped. */
void dropout_gelu_again(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                        float *slope, const float *x, size_t first, size_t n, size_t dim);

#endif
