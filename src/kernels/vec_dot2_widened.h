/* The word v_dot2 where the processor has no instruction for it: both numbers of a pair are widened, which
   is exact, and added by two fused multiply-adds. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_DOT2_WIDENED_H
#define KERNELS_VEC_DOT2_WIDENED_H

#define DOT2_HOW "by widening"

enum { DOT2_ROWS = 4 }; /* the widened halves of B and of A take registers too */

/* c + the second of a times the second of b + the first times the first, lane by lane, in the order of the
   instruction: between v_flush and v_flush_end with its bits too. */
static inline vf v_dot2(vu a, vu b, vf c)
{
    vu high = u_set(0xffff0000);
    vf second = v_fma(v_from(u_and(a, high)), v_from(u_and(b, high)), c);
    return v_fma(v_from(u_left(a, 16)), v_from(u_left(b, 16)), second);
}

#endif
