/* product() without a library, in place of product.c: the same sums in our own tiles.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kernels/product.h"
#include "kernels/product_tiles.h"

void product(const struct kernels *kernels, float *c, size_t ld_c, const float *a, size_t ld_a,
             bool transpose_a, const float *b, size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k,
             bool add)
{
    product_tiles(kernels, c, ld_c, a, ld_a, transpose_a, b, ld_b, transpose_b, m, n, k, add);
}

bool product_by_library(float *c, size_t ld_c, const float *a, size_t ld_a, bool transpose_a, const float *b,
                        size_t ld_b, bool transpose_b, size_t m, size_t n, size_t k, bool add)
{
    (void)c, (void)ld_c, (void)a, (void)ld_a, (void)transpose_a, (void)b, (void)ld_b, (void)transpose_b;
    (void)m, (void)n, (void)k, (void)add;
    return false;
}

void product_cap(const struct kernels *kernels)
{
    (void)kernels; /* our tiles already use only this table */
}

void product_library(char *text, size_t size)
{
    snprintf(text, size, "own");
}

double product_library_rate(enum precision precision, size_t m, size_t n, size_t k, double seconds,
                            void *block)
{
    (void)precision, (void)m, (void)n, (void)k, (void)seconds, (void)block;
    return 0;
}

size_t product_library_size(size_t m, size_t n, size_t k)
{
    (void)m, (void)n, (void)k;
    return 0;
}
