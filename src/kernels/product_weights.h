/* Products with weights: a right operand that many products share is laid once for the tiles (and rounded to
   bfloat16, where that is the precision), so that each product reads it in one stream and turns nothing. The
   left operand is read where it lies; in bf16 it is rounded once for all products that share it. Sums are
   float32 in both precisions. All of it is our own tiles on the slots of the table, so a row of C has the
   same bits whatever m is, nothing is allocated, and no library keeps primitives.
   Measured on Zen 5, one thread, beside other work: a layer 768 wide without attention, forward, takes 0.94
   of the time in float32 and 0.97 in bf16 that it took with A copied or rounded anew for every product and
   with panels in pieces for the first-level cache. Fetching the next panel ahead by instructions was slower,
   and so were register blocks of 8 x 3 and 12 x 2 vectors and A packed in the order of the block.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_PRODUCT_WEIGHTS_H
#define KERNELS_PRODUCT_WEIGHTS_H

#include "kernels/kernels.h"

/* What the operands of products are rounded to. Sums are float32 always. */
enum precision { PRECISION_FLOAT32, PRECISION_BF16, PRECISION_COUNT };

/* "float32", "bf16", ended by NULL. */
extern const char *const precision_names[];

/* Floats of the room for weights of (k, n). */
size_t weights_size(enum precision precision, size_t k, size_t n);

/* Lays op(B) (k, n); transpose_b: B is stored (n, k). */
void weights_lay(const struct kernels *kernels, enum precision precision, float *weights, const float *b,
                 size_t ld_b, bool transpose_b, size_t k, size_t n);

enum { WEIGHTS_PANEL = 64 }; /* columns that lie together */
/* Floats before the laid weights of column `column`, a multiple of WEIGHTS_PANEL: a product of the columns
   from there on begins there. */
size_t weights_from(enum precision precision, size_t k, size_t column);

/* The left operand of m rows (k): the rows themselves, or in bf16 their rounded form, made in `halves`
   (m, weights_left_width(k)), where an odd depth is filled with zeros. */
static inline size_t weights_left_width(size_t k)
{
    return k + k % 2;
}
const void *weights_left(const struct kernels *kernels, enum precision precision, bf16 *halves,
                         const float *rows, size_t m, size_t k);

/* C (m, n) = A B [+ bias, if it is not NULL, in every row], with A of weights_left and B as laid by
   weights_lay, both for this precision. Safe to call from any thread; any of m, n, k may be 0. */
void product_left(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                  const void *left, const float *weights, size_t m, size_t n, size_t k, const float *bias);
/* C = [add: C +] A B for rows of A (m, k) that no other product shares: in bf16 they are rounded on the way.
 */
void product_weights(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                     const float *a, size_t ld_a, const float *weights, size_t m, size_t n, size_t k,
                     bool add);

/* C (m, n) += A^T B, with A (k, m) and B (k, n) rounded to bfloat16: the gradient of weights. */
void product_turned_bf16(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                         const float *b, size_t ld_b, size_t m, size_t n, size_t k);

#endif
