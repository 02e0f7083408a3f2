/* The word v_dot2 for processors without an instruction for it: widens both numbers of a pair, which is
   exact, and adds them with two fused multiply-adds.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_DOT2_WIDENED_H
#define KERNELS_VEC_DOT2_WIDENED_H

#define DOT2_HOW "by widening"

enum { DOT2_ROWS = 4 }; /* the widened halves of B and of A take registers too */

/* c + a1 b1 + a0 b0 per lane, in the instruction's order (second numbers first). Between v_flush and
   v_flush_end it gives the instruction's bits too. */
static inline vf v_dot2(vu a, vu b, vf c)
{
    vu high = u_set(0xffff0000);
    vf second = v_fma(v_from(u_and(a, high)), v_from(u_and(b, high)), c);
    return v_fma(v_from(u_left(a, 16)), v_from(u_left(b, 16)), second);
}

#endif
