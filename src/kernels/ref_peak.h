/* The slots of stage peak: one chain of multiply-adds. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_PEAK_H
#define KERNELS_REF_PEAK_H

#include <math.h>

#include "kernels/ref_bf16.h"
#include "kernels/slots_peak.h"

static float peak_fused_loop(size_t rounds)
{
    float sum = 0;
    for (size_t i = 0; i < rounds * FUSED_LOOP_OPERATIONS / 2; i++)
        sum = fmaf(sum, 0.5f, 1.0f);
    return sum;
}

static float peak_bf16_loop(size_t rounds)
{
    float sum = 0;
    for (size_t i = 0; i < rounds * FUSED_LOOP_OPERATIONS / 4; i++)
        sum = fmaf(widened(0x3f00), 0.5f, fmaf(widened(0x3f00), 0.5f, sum));
    return sum;
}

#define REF_PEAK .peak.fused_loop = peak_fused_loop, .peak.bf16_loop = peak_bf16_loop

#endif
