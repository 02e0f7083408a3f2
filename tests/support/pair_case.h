/* A mechanism that is one softmax over the pairs (query, key) that a test names, against the oracle in double
   precision, on every instruction set.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PAIR_CASE_H
#define TESTS_SUPPORT_PAIR_CASE_H

#include "oracle/oracle_softmax.h"
#include "support/attention_case.h"

/* How often query i meets key j. */
typedef size_t pair_times(const void *argument, size_t query, size_t key);

/* One head of one sequence, filled with normals from `seed`; if operands of products are rounded, with
   normals that rounding does not change. */
struct attention_case pair_case_new(const char *mechanism, const void *options, size_t queries, size_t keys,
                                    size_t head_dim, size_t value_dim, bool causal, enum precision precision,
                                    uint64_t seed);
/* The oracle, run. Free it with oracle_softmax_free. */
struct oracle_softmax pair_case_oracle(const struct attention_case *problem, pair_times *times,
                                       const void *argument);
/* Output and gradients are within the oracle's bounds; gradients begin at 0.25. */
void pair_case_check(struct attention_case *problem, pair_times *times, const void *argument);
/* The results of mechanism and of softmax differ by at most the errors of both. */
void pair_case_equals_softmax(struct attention_case *problem);
/* Any number of threads gives the same bits; with the fastest table, and any mechanism. */
void pair_case_check_threads(struct attention_case *problem);

#endif
