/* Products with weights. A right operand that many products share is packed once for the tiles (and rounded,
   if the precision is bfloat16), so that each product reads it sequentially and transposes nothing. The left
   operand is read in place; in bf16 it is rounded once for all products that share it. Sums are float32 in
   both precisions. The products use our own tiles on the slots of the table, so a row of C has the same bits
   for every m, nothing is allocated and no library caches primitives.
   Measured on Zen 5, one thread, under load: the forward pass of a layer 768 wide without attention takes
   0.94 of the time in float32 and 0.97 in bf16 (then rounded 768 deep at a time), compared with A copied or
   rounded for every product and panels in pieces for the first-level cache. Slower: prefetching the next
   panel, register blocks of 8 x 3 and 12 x 2 vectors, and A packed in the order of the block.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_PRODUCT_WEIGHTS_H
#define KERNELS_PRODUCT_WEIGHTS_H

#include "kernels/kernels.h"

/* Precision of the operands. Sums are always float32. */
enum precision { PRECISION_FLOAT32, PRECISION_BF16, PRECISION_COUNT };

/* "float32", "bf16", terminated by NULL. */
extern const char *const precision_names[];

/* Number of floats that packed weights of (k, n) need. */
size_t weights_size(enum precision precision, size_t k, size_t n);

/* Packs op(B) (k, n); transpose_b: B is stored (n, k). */
void weights_pack(const struct kernels *kernels, enum precision precision, float *weights, const float *b,
                  size_t ld_b, bool transpose_b, size_t k, size_t n);

enum { WEIGHTS_PANEL = 64 }; /* columns per panel */
/* Offset in floats of column `column`, a multiple of WEIGHTS_PANEL, in packed weights: a product of the
   columns from there on starts at it. */
size_t weights_from(enum precision precision, size_t k, size_t column);

/* The left operand of m rows (k): in float32 the rows themselves, in bf16 their rounded copy, written to
   `halves` (m, weights_left_width(k)) and padded with zeros if k is odd. */
static inline size_t weights_left_width(size_t k)
{
    return k + k % 2;
}
const void *weights_left(const struct kernels *kernels, enum precision precision, bf16 *halves,
                         const float *rows, size_t m, size_t k);

/* C (m, n) = A B [+ bias in every row, if not NULL], with A from weights_left and B from weights_pack, both
   for this precision and by this table of kernels. Safe to call from any thread; m, n, k may be 0. */
void product_left(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                  const void *left, const float *weights, size_t m, size_t n, size_t k, const float *bias);
/* C = [add: C +] A B for rows of A (m, k) that no other product shares: bf16 rounds them during the
   product. */
void product_weights(const struct kernels *kernels, enum precision precision, float *c, size_t ld_c,
                     const float *a, size_t ld_a, const float *weights, size_t m, size_t n, size_t k,
                     bool add);

/* C (m, n) += A^T B, with A (k, m) and B (k, n) rounded to bfloat16: the gradient of weights. */
void product_transposed_bf16(const struct kernels *kernels, float *c, size_t ld_c, const float *a,
                             size_t ld_a, const float *b, size_t ld_b, size_t m, size_t n, size_t k);

#endif
