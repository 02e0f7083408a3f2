/* Counting the numbers above a bound, the step of an exact selection (parts/topk.h), and listing them at its
   end. Four comparisons at a time, so that the counts of lanes do not wait for each other; a list is made
   from the bits of each comparison, since few of them are set. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_SELECT_H
#define KERNELS_SIMD_SELECT_H

#include "kernels/kernels.h"
#include "kernels/simd_math.h"

static size_t count_above(const float *x, size_t n, float bound)
{
    vf bounds = v_set(bound);
    size_t i = 0, count[4] = {0};
    for (; i + 4 * VLEN <= n; i += 4 * VLEN) {
        UNROLLED
        for (size_t u = 0; u < 4; u++)
            count[u] += v_count(v_less(bounds, v_load(x + i + u * VLEN)), VLEN);
    }
    for (; i < n; i += VLEN) {
        size_t left = n - i < VLEN ? n - i : VLEN;
        count[0] += v_count(v_less(bounds, v_load_part(x + i, left, bounds)), left);
    }
    return count[0] + count[1] + count[2] + count[3];
}

static void list_above(uint32_t *out, const float *x, size_t n, float bound)
{
    vf bounds = v_set(bound);
    for (size_t i = 0; i < n; i += VLEN) {
        size_t left = n - i < VLEN ? n - i : VLEN;
        for (unsigned bits = v_bits(v_less(bounds, v_load_part(x + i, left, bounds))); bits != 0;
             bits &= bits - 1)
            *out++ = (uint32_t)i + (uint32_t)__builtin_ctz(bits);
    }
}

#endif
