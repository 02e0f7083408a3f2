/* Attention utilities: the share of a token's full attention in each group, the targets that hash functions
   learn from (Sun, Yang and Yoo 2022, eqs. 11 to 18). With A the softmax of all scores of a head (no mask;
   rows normed or not) and K_b, Q_b the keys and queries of group b,
     psi_Q(i)_b ~ sum_{j in K_b} A_ij,    psi_K(j)_b ~ sum_{i in Q_b} A_ij,   each summing to 1 over b.
   Tokens in several groups count in each; tokens in none are left out. exact_shares.h computes A over all
   pairs, estimated_shares.h estimates it from random features.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UTILITY_H
#define PARTS_UTILITY_H

#include "parts/targets/utility_problem.h"

size_t utility_size(const struct problem_shape *shape, const struct utility *utility);
void utility_targets(const struct problem *problem, const struct utility *utility, void *scratch);

#endif
