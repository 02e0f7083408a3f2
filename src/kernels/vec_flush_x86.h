/* The words v_flush and v_flush_end for all x86 instruction sets: two bits of MXCSR. Results are rounded
   before they are flushed. v_dot2_flushed is v_dot2 in between, for sums of which only the sign is used.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_FLUSH_X86_H
#define KERNELS_VEC_FLUSH_X86_H

#include <immintrin.h>

#define v_dot2_flushed v_dot2

static inline unsigned v_flush(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON | 0x0040 /* denormal operands are zeros */);
    return before;
}

static inline void v_flush_end(unsigned before)
{
    _mm_setcsr(before);
}

#endif
