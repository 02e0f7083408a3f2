/* Attention utilities: the share of a token's full attention in each group, the targets that hash functions
   learn from (Sun, Yang and Yoo 2022, eqs. 11 to 18). With A the softmax of all scores of a head (no mask;
   rows normed or not) and K_b, Q_b the keys and queries of group b,
     psi_Q(i)_b ~ sum_{j in K_b} A_ij,    psi_K(j)_b ~ sum_{i in Q_b} A_ij,   each summing to 1 over b.
   Tokens in several groups count in each; tokens in none are left out. Exact: in tiles, as attention whose
   values are the membership of the keys, and its gradient: n_q n_k pairs.
   Estimated: with features phi of random_features.h, using only sums over groups,
     psi_Q(i)_b ~ phi(q_i) S_b,  S_b = sum_{j in K_b} phi(k_j);
     psi_K(j)_b ~ phi(k_j) T_b,  T_b = sum_{i in Q_b} phi(q_i) / (phi(q_i) sum_j phi(k_j)),
   at 2 (n_q + n_k) R (B + 2 d) operations (d in place of 2 d if the features have both signs): each side is
   projected twice, once for its largest exponent or its sums and once for its psi, because nothing of size n
   R is kept. Stabilisers: Performer's (a query's own largest exponent, one exponent for all keys; unbiased),
   or swapped as in the published code, which weighs keys by their own factor and is biased, with less
   variance. `twice_scaled`, also as published: the queries of T are divided by sqrt(d) once more. Scratch is
   linear in n. Spans of a sequence exchange, for exact targets, 2 floats and B shares a query, and for
   estimated ones two tables of R B floats. The estimate and all calls of `take` run on the pool; the exact
   targets are computed on one thread. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UTILITY_H
#define PARTS_UTILITY_H

#include "parts/features/random_features.h"
#include "parts/groups/group_attention.h"
#include "parts/rows/view.h"

/* Rows per tile, and rows per block with its own sums. */
enum { UTILITY_ROWS = 64, UTILITY_BLOCK = 8 * UTILITY_ROWS };

enum utility_side { UTILITY_QUERIES, UTILITY_KEYS };

/* The groups of each of n tokens: token i is in group[start[i] .. start[i + 1]). */
struct homes {
    uint32_t *start, *group;
};
struct homes homes_take(struct arena *arena, size_t n, size_t places);
void homes_by_lists(const struct homes *homes, const struct members *members, size_t n);
/* Token i is in choice[i * each .. (i + 1) * each). */
void homes_by_choice(const struct homes *homes, const uint32_t *choice, size_t n, size_t each);

/* The keys are a span of a sequence whose other spans are elsewhere. Exact: all queries attend to the keys of
   every span, and this one gives those from `first` to `end` to `take`. Estimated: the queries are a span
   too. The functions work on x (n) of all spans. */
struct utility_across {
    size_t first, end;
    void (*sum)(void *argument, float *x, size_t n);
    void (*largest)(void *argument, float *x, size_t n);
    void *argument;
};

struct utility {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    size_t workers;    /* its threads; >= 1 */
    size_t num_queries, num_keys, dim, num_groups;
    struct view query, key; /* the rows that attend */
    struct homes query_homes, key_homes;
    const float *query_weights; /* (num_queries) weight of each in psi_K; NULL: 1. Exact only */
    size_t num_features;        /* R; 0: exact */
    const float *directions;    /* (dim, features_directions(num_features, both_signs)) */
    bool both_signs;
    bool swapped, twice_scaled;
    const struct utility_across *across; /* NULL: the whole sequence is here */
    /* Receives psi (count, num_groups), adjacent, for rows first .. first + count - 1 of a side; each row is
       up to a factor, psi >= 0, and all 0 in a row without mass. All queries come before all keys. Calls for
       different slots < workers may run concurrently, those for one slot in sequence. After each block of
       rows, whose boundaries do not depend on workers, `close` is called, slot by slot in order. */
    void (*take)(void *argument, enum utility_side side, size_t first, size_t count, const float *psi,
                 size_t slot);
    void (*close)(void *argument, size_t slot);
    void *argument;
};

size_t utility_size(const struct utility *utility);
void utility_targets(const struct utility *utility, void *scratch);

#endif
