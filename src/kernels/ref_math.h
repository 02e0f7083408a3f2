/* Functions that the plain loops of several stages share. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_MATH_H
#define KERNELS_REF_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PI        3.14159265358979323846
#define SQRT_HALF 0.70710678118654752440
#define TINY_NORM 1e-12

static size_t code_at(const void *codes, bool wide, size_t k)
{
    return wide ? ((const uint32_t *)codes)[k] : ((const uint16_t *)codes)[k];
}

#endif
