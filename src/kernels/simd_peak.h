/* Loops of multiply-adds in registers, float32 and bfloat16.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PEAK_H
#define KERNELS_SIMD_PEAK_H

#include "kernels/simd_bf16.h"
#include "kernels/simd_math.h"
#include "kernels/slots_peak.h"

/* Twelve chains: two pipes times a latency of 4 or 5, with a margin. */
static float peak_fused_loop(size_t rounds)
{
    enum { CHAINS = 12, STEPS = FUSED_LOOP_OPERATIONS / (2 * VLEN * CHAINS) };
    vf sum[CHAINS], half = v_set(0.5f), one = v_set(1.0f), total = v_zero();
    for (int c = 0; c < CHAINS; c++)
        sum[c] = v_set((float)c);
    for (size_t r = 0; r < rounds * STEPS; r++) {
        UNROLLED
        for (int c = 0; c < CHAINS; c++)
            sum[c] = v_fma(sum[c], half, one);
    }
    for (int c = 0; c < CHAINS; c++)
        total = v_add(total, sum[c]);
    return v_sum(total);
}

/* Twelve chains, as in peak.fused_loop. Inline, because a table with tiles does not use it. */
static inline float peak_bf16_loop(size_t rounds)
{
    enum { CHAINS = 12, STEPS = FUSED_LOOP_OPERATIONS / (4 * VLEN * CHAINS) };
    static const bf16 halves[2] = {0x3f00, 0x3f00};
    vf sum[CHAINS], total = v_zero();
    vu half = u_set_two(halves);
    for (int c = 0; c < CHAINS; c++)
        sum[c] = v_set((float)c);
    for (size_t r = 0; r < rounds * STEPS; r++) {
        UNROLLED
        for (int c = 0; c < CHAINS; c++)
            sum[c] = v_dot2(half, half, sum[c]);
    }
    for (int c = 0; c < CHAINS; c++)
        total = v_add(total, sum[c]);
    return v_sum(total);
}

#define SIMD_PEAK .peak.fused_loop = peak_fused_loop

#endif
