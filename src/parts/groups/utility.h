/* Attention utilities: how much of the full attention of a token each group holds, the targets that hash
   functions learn from (Sun, Yang and Yoo 2022, eqs. 11 to 18). With A the softmax of all scores of a head
   (no mask; rows normed or not) and K_b, Q_b the keys and queries of group b,
     psi_Q(i)_b ~ sum_{j in K_b} A_ij,    psi_K(j)_b ~ sum_{i in Q_b} A_ij,   each summing to 1 over b.
   Tokens in several groups count in each, tokens in none are left out.
   Exact: in tiles, as attention whose values say who is in which group, and its gradient: n_q n_k pairs.
   Estimated: with features phi of random_features.h, in sums over groups alone,
     psi_Q(i)_b ~ phi(q_i) S_b,  S_b = sum_{j in K_b} phi(k_j);
     psi_K(j)_b ~ phi(k_j) T_b,  T_b = sum_{i in Q_b} phi(q_i) / (phi(q_i) sum_j phi(k_j)),
   at 2 (n_q + n_k) R (B + 2 d) operations: each side is projected twice, once for its largest exponent or its
   sums, once for its psi, since nothing of size n R is kept. Stabilisers: Performer's, a query's own largest
   exponent and one for all keys, without bias; or swapped, as the published code has it, which weighs keys by
   their own factor and is biased, with less variance. `twice_scaled`, also as published: the queries of T are
   over sqrt(d) once more. Scratch is linear in n. The estimate and all that takes psi run on the pool, of the
   exact way the latter alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UTILITY_H
#define PARTS_UTILITY_H

#include "parts/features/random_features.h"
#include "parts/groups/group_attention.h"
#include "parts/rows/view.h"

/* Rows at a time, and those whose sums are made apart from the others'. */
enum { UTILITY_ROWS = 64, UTILITY_BLOCK = 8 * UTILITY_ROWS };

enum utility_side { UTILITY_QUERIES, UTILITY_KEYS };

/* Which groups each of n tokens is in: group[start[i] .. start[i + 1]). */
struct homes {
    uint32_t *start, *group;
};
struct homes homes_take(struct arena *arena, size_t n, size_t places);
void homes_by_lists(const struct homes *homes, const struct members *members, size_t n);
void homes_by_choice(const struct homes *homes, const uint32_t *choice, size_t n);

struct utility {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    size_t workers;    /* its threads; >= 1 */
    size_t num_queries, num_keys, dim, num_groups;
    struct view query, key; /* that attend */
    struct homes query_homes, key_homes;
    const float *query_weights; /* (num_queries) how much each counts in psi_K; NULL: 1. Exact alone */
    size_t num_features;        /* R; 0: exact */
    const float *directions;    /* (dim, num_features) */
    bool swapped, twice_scaled;
    /* Takes psi (count, num_groups), adjacent, each row up to a factor, of the rows first .. first + count -
       1 of a side: psi >= 0, and all 0 in a row without any mass. All queries come before all keys. Calls of
       different slots < workers may run at once, those of one follow each other; `close` says, one slot after
       another, that the rows of a block, which are the same for any workers, are through. */
    void (*take)(void *argument, enum utility_side side, size_t first, size_t count, const float *psi,
                 size_t slot);
    void (*close)(void *argument, size_t slot);
    void *argument;
};

size_t utility_size(const struct utility *utility);
void utility_targets(const struct utility *utility, void *scratch);

#endif
