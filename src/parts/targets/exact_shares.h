/* Targets from all pairs of a query and a key, by sums over the groups of a token: with e_ij = exp((s_ij -
   max_i) / sqrt(d)) and A_ij = e_ij / sum_i,
     psi_Q(i)_b += e_ij for each group b of key j,    psi_K(j)_b += w_i A_ij for each group b of query i.
   A strip of queries attends to all keys at a time. First its exponentials are stored, with their sums and
   those over groups of keys; then sum_i is known, and the stored ones are added up over groups of queries. So
   a pair costs one product, one exponential and one addition per group of either token. Sums run along rows
   whose lanes are tokens, keys for psi_K and, after the exponentials are transposed, queries for psi_Q:
   nothing is reduced across lanes or scattered.
   The keys are cut into chunks, each with its own maximum and sums for a query, which are merged in order:
   chunks run on any thread, with the same bits.
   Cost: n_q n_k (2 d + 2 h) operations and exponentials, with h groups a token; with spans of a sequence
   2 d and the exponential twice. Memory: n_k (64 + d + B) + n_q B floats, and B / 8 more per key. Spans
   exchange 2 floats and B shares a query.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_EXACT_SHARES_H
#define PARTS_EXACT_SHARES_H

#include "parts/targets/utility_problem.h"

size_t exact_shares_size(const struct problem_shape *shape, const struct utility *utility);
void exact_shares(const struct problem *problem, const struct utility *utility, void *scratch);

#endif
