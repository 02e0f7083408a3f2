/* Counting and listing the numbers above a bound, a step of exact selection (parts/groups/topk.h). Counting
   does four comparisons at a time and adds lane by lane, which takes half the time of counting the bits of
   each mask. Listing takes 64 numbers at a time, so that the end of its inner loop (AVX2) mispredicts once
   for all of them, not once per vector.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_SELECT_H
#define KERNELS_SIMD_SELECT_H

#include "kernels/simd_math.h"
#include "kernels/slots_rows.h"

static size_t rows_count_above(const float *x, size_t n, float bound)
{
    vf bounds = v_set(bound);
    vu above[4] = {u_set(0), u_set(0), u_set(0), u_set(0)};
    size_t i = 0;
    for (; i + 4 * VLEN <= n; i += 4 * VLEN) {
        UNROLLED
        for (size_t u = 0; u < 4; u++)
            above[u] = u_add_one(above[u], v_less(bounds, v_load(x + i + u * VLEN)));
    }
    for (; i < n; i += VLEN)
        above[0] =
            u_add_one(above[0], v_less(bounds, v_load_part(x + i, n - i < VLEN ? n - i : VLEN, bounds)));
    return u_sum(u_add(u_add(above[0], above[1]), u_add(above[2], above[3])));
}

static void rows_list_above(uint32_t *out, const float *x, size_t n, float bound)
{
    vf bounds = v_set(bound);
    for (size_t i = 0; i < n; i += 64) {
        float tail[64];
        const float *from = x + i;
        vm above[64 / VLEN];
        if (n - i < 64) {
            for (size_t j = 0; j < 64; j++)
                tail[j] = i + j < n ? x[i + j] : bound;
            from = tail;
        }
        UNROLLED
        for (size_t v = 0; v < 64 / VLEN; v++)
            above[v] = v_less(bounds, v_load(from + v * VLEN));
        out += u_list64(out, above, (uint32_t)i);
    }
}

#define SIMD_SELECT .rows.count_above = rows_count_above, .rows.list_above = rows_list_above

#endif
