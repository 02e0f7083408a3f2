/* The word v_dot2 where the processor has no instruction for it: both numbers of a pair are widened, which
   is exact, and added by two fused multiply-adds. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_DOT2_WIDENED_H
#define KERNELS_VEC_DOT2_WIDENED_H

enum { DOT2_ROWS = 4 }; /* the widened halves of B and of A take registers too */

/* c + the first of a times the first of b + the second times the second, lane by lane. */
static inline vf v_dot2(vu a, vu b, vf c)
{
    vu high = u_set(0xffff0000);
    vf first = v_fma(v_from(u_left(a, 16)), v_from(u_left(b, 16)), c);
    return v_fma(v_from(u_and(a, high)), v_from(u_and(b, high)), first);
}

#endif
