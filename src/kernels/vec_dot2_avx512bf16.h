/* The word v_dot2 for AVX512-BF16: one instruction, which treats denormal numbers as 0.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_DOT2_AVX512BF16_H
#define KERNELS_VEC_DOT2_AVX512BF16_H

#if !defined(__AVX512BF16__)
#error "vec_dot2_avx512bf16.h needs -mavx512bf16"
#endif

#define DOT2_HOW "by instruction"

enum { DOT2_ROWS = 6 }; /* as BLOCK_ROWS of vec_avx512.h */

static inline vf v_dot2(vu a, vu b, vf c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

#endif
