/* Dense products in float32 on the calling thread: through oneDNN's C API where that is faster, else in our
   own tiles. The caller cuts the work into pieces that depend on the shape alone and spreads them over its
   pool, so bits never depend on the number of threads. The only file of the project that knows oneDNN is
   product.c; without the library product_own.c computes the same with the table's tiles.product.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_PRODUCT_H
#define KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/product_weights.h"

/* C (m, n) = [add: C +] op(A) op(B), row-major; op(A) is (m, k), op(B) is (k, n); transpose_a: A is stored
   (k, m). Safe to call from any thread of a pool; never starts threads, and leaves the caller's OpenMP
   setting as it was. m, n, k may be 0 (k = 0 gives zeros, or C unchanged with add). A row of C has the same
   bits for any m where n <= 256 and k <= 256. */
void product(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
             bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k,
             bool add);

/* Caps the instructions of the product library to those of this table, for the whole process; has no effect
   once a product was computed. Not for libraries: whoever shares the process is capped too. */
void product_cap(const struct kernels *kernels);

/* "oneDNN 2.6.3" or "own": for info and bench. Writes into text. */
void product_library(char *text, size_t size);

/* GF/s of the library's own call for C (m, n) = A B on the calling thread, in its best form: operands in this
   precision already, B in the layout that the library likes, C in float32, what is made once made before.
   Over `seconds`. What the layers' products are held against. block: product_library_size bytes, aligned to a
   cache line. 0 where there is no library, or it refuses. */
double product_library_rate(enum precision precision, size_t m, size_t n, size_t k, double seconds,
                            void *block);
size_t product_library_size(size_t m, size_t n, size_t k);

/* Largest float32 GF/s found over a register-only loop of fused multiply-adds and a few product shapes, each
   over `seconds`, on the calling thread. */
double product_peak(const struct kernels *kernels, double seconds);
/* The same for products of bfloat16 with sums in float32; without the instruction, what widening reaches. */
double product_peak_bf16(const struct kernels *kernels, double seconds);

#endif
