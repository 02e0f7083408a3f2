/* Shared by the tests of mechanisms with groups of tokens: options from text, an oracle with the rows of a
   case, and the comparison.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_GROUP_CASE_H
#define TESTS_SUPPORT_GROUP_CASE_H

#include "oracle/oracle_groups.h"
#include "support/attention_case.h"

/* Options from "name=text name=text ..."; free with free(). */
void *group_case_options(const char *mechanism, const char *settings);

/* A case of one sequence and one head, filled with normals. */
struct attention_case group_case_new(const char *mechanism, const void *options, size_t n_q, size_t n_k,
                                     size_t head_dim, size_t value_dim, bool causal);

/* An oracle with the rows of the case, its rounds and the rules of the mode; z is 0 and is filled by the
   test. */
struct oracle_groups group_case_oracle(const struct attention_case *data, size_t buckets, bool paper,
                                       bool joint, bool strict);

/* Runs and compares both, and frees the oracle. */
void group_case_check(const struct attention_case *data, struct oracle_groups *oracle, const char *what);

#endif
