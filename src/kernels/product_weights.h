/* Products with weights: a right operand that many products share is laid once for the tiles (and rounded to
   bfloat16, where that is the precision), so that each product reads it in one stream and turns nothing. The
   left operand is copied or rounded on its way, a slab at a time on the stack; sums are float32 in both
   precisions. All of it is our own tiles on the slots of the table, so a row of C has the same bits whatever
   m is, nothing is allocated, and no library keeps primitives. Why not oneDNN: measured on Zen 5 beside other
   work, GF/s of these tiles and of oneDNN 2.6.3 with reordered weights and, in bf16, a left operand that was
   rounded before: bf16, 4032 x 768 x 768 (rows, columns, depth) 422 and 440, 4032 x 3072 x 768 399 and 437,
   4032 x 768 x 3072 347 and 440, 192 x 128 x 64 363 and 376; float32 200 and 224, 184 and 223, 198 and 177,
   210 and 205. A tenth less, for no cache of primitives, no locks and no memory.
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

/* C (m, n) = [add: C +] A B, with A (m, k) and B as laid by weights_lay for this precision. Safe to call from
   any thread; any of m, n, k may be 0. */
void product_weights(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                     const float *a, size_t ld_a, const float *weights, size_t m, size_t n, size_t k,
                     bool add);

/* C (m, n) += A^T B, with A (k, m) and B (k, n) rounded to bfloat16: the gradient of weights. */
void product_turned_bf16(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
                         const float *b, size_t ld_b, size_t m, size_t n, size_t k);

#endif
