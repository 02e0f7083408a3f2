/* Shared by the tests of targets (parts/targets/): tokens with rows and groups, the targets that the code
   gives, and those that follow from weights of all pairs.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TARGET_CASE_H
#define TESTS_SUPPORT_TARGET_CASE_H

#include "parts/targets/utility.h"

/* Index 0: queries; 1: keys. */
struct target_case {
    size_t n[2], dim, ld, groups;
    float *rows[2];                /* (n, ld) */
    uint8_t *in[2];                /* (n, groups) */
    uint32_t *start[2], *group[2]; /* struct token_groups */
    float *weights;                /* (n[0]) of queries, in the targets of keys */
    float *given[2];               /* (n, groups): what `take` got, each row over its sum */
    double *want[2];
    size_t first, end; /* the queries that are given */
};

/* Normal rows times `size`; a token is in each group with probability 1 / sparse. */
struct target_case target_case_new(size_t n_q, size_t n_k, size_t dim, size_t groups, float size,
                                   uint32_t sparse);
void target_case_free(struct target_case *c);

/* (dim, count) directions of random features; guard_free takes features_count(count, dim). */
float *target_case_directions(size_t count, size_t dim);

/* <q_i, k_j> */
double target_case_dot(const struct target_case *c, size_t i, size_t j);
/* want, from weights a (n_q, n_k) and, for keys, their shares of the row in of_keys. */
void target_case_want(const struct target_case *c, const double *a, const double *of_keys);

/* Sets the operands in u, runs it in scratch that ends at an unmapped page, and checks the calls of `take`
   and `close`. kernels NULL: the best; pool NULL: one thread. */
void target_case_run(const struct target_case *c, const struct kernels *kernels, struct pool *pool,
                     struct utility *u);
/* The same on one thread, and compares. */
void target_case_check(const struct target_case *c, const struct kernels *kernels, struct utility *u,
                       double bound, const char *what);

#endif
