/* Mechanisms that sample keys from hash tables against oracle/oracle_samples.h, and the codes of their rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_SAMPLE_CASE_H
#define TESTS_SUPPORT_SAMPLE_CASE_H

#include "oracle/oracle_samples.h"
#include "parts/sampling/sampled_attention.h"
#include "support/attention_case.h"

/* What a call with `key` prepares: free with free(). */
float *sample_case_planes(const struct yoso_options *hashing, uint64_t key, size_t d);

/* The codes (n, num_hashes) of rows x (n, d) in a head with this random key; free with free(). */
uint32_t *sample_case_codes(const struct yoso_options *hashing, const float *planes, uint64_t random_key,
                            const float *x, size_t n, size_t d);

/* Runs "lss" or "hbe" on one head and compares it with the oracle, on every instruction set. Query and key
   rows are as filled; edit changes them before, or is NULL. */
void sample_case_check(const char *mechanism, const char *settings, size_t n_q, size_t n_k, size_t d,
                       size_t d_v, bool causal, void (*edit)(struct attention_case *data));

#endif
