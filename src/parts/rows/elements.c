/* Slots bf16.widen and bf16.round, or copies.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/elements.h"

#include <string.h>

size_t element_bytes(enum dtype dtype)
{
    return dtype == DTYPE_BFLOAT16 ? sizeof(bf16) : sizeof(float);
}

static void copy(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * ld_to, from + i * ld_from, cols * sizeof *to);
}

void elements_load(const struct kernels *kernels, float *to, size_t ld_to, const void *from, size_t ld_from,
                   enum dtype dtype, size_t rows, size_t cols)
{
    if (dtype == DTYPE_BFLOAT16)
        kernels->bf16.widen(to, ld_to, from, ld_from, rows, cols);
    else
        copy(to, ld_to, from, ld_from, rows, cols);
}

void elements_store(const struct kernels *kernels, void *to, size_t ld_to, enum dtype dtype,
                    const float *from, size_t ld_from, size_t rows, size_t cols)
{
    if (dtype == DTYPE_BFLOAT16)
        kernels->bf16.round(to, ld_to, from, ld_from, rows, cols);
    else
        copy(to, ld_to, from, ld_from, rows, cols);
}
