/* What targets are computed from besides the rows of a problem, and who receives them. utility.h has the
   formulas.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_UTILITY_PROBLEM_H
#define PARTS_UTILITY_PROBLEM_H

#include "parts/groups/members.h"
#include "parts/problem/problem.h"

/* Rows per tile, and rows per block with its own sums. */
enum { UTILITY_ROWS = 64, UTILITY_BLOCK = 8 * UTILITY_ROWS };

enum utility_side { UTILITY_QUERIES, UTILITY_KEYS };

/* The keys are a span of a sequence whose other spans are elsewhere. Exact: all queries attend to the keys of
   every span, and this one gives those from `first` to `end` to `take`. Estimated: the queries are a span
   too. The functions work on x (n) of all spans. */
struct utility_across {
    size_t first, end;
    void (*sum)(void *argument, float *x, size_t n);
    void (*largest)(void *argument, float *x, size_t n);
    void *argument;
};

/* The queries and keys of the problem are the rows that attend. */
struct utility {
    size_t num_groups;
    struct token_groups query_groups, key_groups;
    const float *query_weights; /* (n_q) weight of each in psi_K; NULL: 1. Exact only */
    size_t num_features;        /* R; 0: exact */
    const float *directions;    /* (d, features_directions(num_features, both_signs)) */
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

#endif
