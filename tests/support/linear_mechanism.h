/* A small mechanism that uses everything of the interface, so that all of it is proven before the mechanisms
   that need it exist. Linear attention through learned features of turned vectors:
     f(x)_r = sum_c project[r][c] s_c t_c x_c,  s: signs of the call (shared), t: signs of the head
     X_i = sum over kept keys j (causal: j <= i) of w_j <f(q_i), f(k_j)> v_j,  average: divided by their
   number out_i = gain * X_i by columns,  w_j = 1, or rising: 1 + slope * position of j Auxiliary loss: sum_i
   |f(q_i)|^2 / 2 over the queries. Plain loops, float32. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LINEAR_MECHANISM_H
#define TESTS_SUPPORT_LINEAR_MECHANISM_H

#include "attention/mechanism.h"

struct linear_options {
    int64_t features;
    double slope;
    int weighting; /* 0 even, 1 rising */
    int average;
};

/* Sees masks and positions. Refuses head_dim over 64. */
extern const struct mechanism linear_mechanism;
/* The same with even weights, and blind to masks: attention.c keeps the masked keys from it. */
extern const struct mechanism blind_mechanism;
/* Blind, and it says that its queries compete: masked tokens are kept from it as queries too. */
extern const struct mechanism competing_mechanism;
/* Blind, and features are its only option: 1 to 8, where the others take 1 to 16. */
extern const struct mechanism narrow_mechanism;

#endif
