/* Dense products in float32 on the calling thread, by oneDNN's C API where it is faster and by our own tiles
   elsewhere. The caller cuts the work into pieces that depend only on the shape and distributes them over its
   pool, so results do not depend on the number of threads. Only product.c uses oneDNN; without the library
   product_own.c computes the same with the table's tiles.product.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_PRODUCT_H
#define KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/product_weights.h"

/* C (m, n) = [add: C +] op(A) op(B), row-major. op(A) is (m, k), op(B) is (k, n); transpose_a: A is stored
   (k, m). Safe to call from any thread of a pool. Starts no threads and leaves the caller's OpenMP setting as
   it was. m, n, k may be 0; k = 0 gives zeros, or C unchanged with add. A row of C has the same bits for
   every m if n <= 256 and k <= 256. */
void product(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
             bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k,
             bool add);

/* The same by the library alone, for m > 0. False: there is none, or it refused; C is as it was. */
bool product_by_library(float *c, size_t ld_c, const float *a, size_t ld_a, bool transpose_a, const float *b,
                        size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k, bool add);

/* Caps the instructions of the product library to those of this table, for the whole process. Has no effect
   after the first product. A library must not call it, since it caps the rest of the process too. */
void product_cap(const struct kernels *kernels);

/* Writes "oneDNN 2.6.3" or "own" into text, for info and bench. */
void product_library(char *text, size_t size);

/* GF/s of the library's own call for C (m, n) = A B on the calling thread, measured over `seconds`, in its
   best form: operands already in this precision, B in the library's preferred layout, C in float32, setup
   done before. The layers' products are compared with it. block: product_library_size bytes, aligned to a
   cache line. Returns 0 if there is no library or it refuses. */
double product_library_rate(enum precision precision, size_t m, size_t n, size_t k, double seconds,
                            void *block);
size_t product_library_size(size_t m, size_t n, size_t k);

/* Highest float32 GF/s on the calling thread, of a loop of fused multiply-adds in registers and of a few
   product shapes, each measured over `seconds`. space: (PRODUCT_PEAK_FLOATS), too many for a stack. */
enum { PRODUCT_PEAK_FLOATS = 3 * 256 * 256 };
double product_peak(const struct kernels *kernels, double seconds, float *space);
/* The same for products of bfloat16 with float32 sums; without the instruction, the rate that widening
   reaches. */
double product_peak_bf16(const struct kernels *kernels, double seconds, float *space);

#endif
