/* A small mechanism that uses every part of the interface, so that all of it is tested independently of the
   mechanisms that need it. Linear attention through learned features of rotated vectors:
     f(x)_r = sum_c project[r][c] s_c t_c x_c,  s: signs of the call (shared), t: signs of the head
     X_i = sum over kept keys j (causal: j <= i) of w_j <f(q_i), f(k_j)> v_j,  average: over their number
     out_i = gain * X_i by columns,  w_j = 1, or rising: 1 + slope * position of j
   Auxiliary loss: sum_i |f(q_i)|^2 / 2 over the queries. Plain loops, float32.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LINEAR_MECHANISM_H
#define TESTS_SUPPORT_LINEAR_MECHANISM_H

#include "attention/mechanism.h"

struct linear_options {
    int64_t features;
    double slope;
    int weighting; /* 0 even, 1 rising */
    int average;
};

/* Sees masks and positions. Refuses head_dim above 64. */
extern const struct mechanism linear_mechanism;
/* The same with even weights and without masks: attention.c hides masked keys from it. */
extern const struct mechanism blind_mechanism;
/* Blind, with competing queries: attention.c hides masked tokens from it as queries too. */
extern const struct mechanism competing_mechanism;
/* Blind, with features as its only option: 1 to 8, while the others allow 1 to 16. */
extern const struct mechanism narrow_mechanism;

#endif
