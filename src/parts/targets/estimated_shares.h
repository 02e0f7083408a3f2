/* Targets estimated with features phi of random_features.h, using only sums over groups:
     psi_Q(i)_b ~ phi(q_i) S_b,  S_b = sum_{j in K_b} phi(k_j);
     psi_K(j)_b ~ phi(k_j) T_b,  T_b = sum_{i in Q_b} phi(q_i) / (phi(q_i) sum_j phi(k_j)),
   at 2 (n_q + n_k) R (B + 2 d) operations (d in place of 2 d if the features have both signs): each side is
   projected twice, once for its largest exponent or its sums and once for its psi, because nothing of size n
   R is kept. Stabilisers: Performer's (a query's own largest exponent, one exponent for all keys; unbiased),
   or swapped as in the published code, which weighs keys by their own factor and is biased, with less
   variance. `twice_scaled`, also as published: the queries of T are divided by sqrt(d) once more. Scratch
   does not depend on n. Spans of a sequence exchange two tables of R B floats. Blocks of rows run on the
   pool.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_ESTIMATED_SHARES_H
#define PARTS_ESTIMATED_SHARES_H

#include "parts/targets/utility_problem.h"

size_t estimated_shares_size(const struct problem_shape *shape, const struct utility *utility);
void estimated_shares(const struct problem *problem, const struct utility *utility, void *scratch);

#endif
