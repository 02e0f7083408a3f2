/* Attention from keys sampled out of hash tables, in double precision from given codes: the definitions of
   lss and hbe, pair by pair.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_SAMPLES_H
#define TESTS_ORACLE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oracle_samples {
    size_t n_q, n_k, d, d_v, num_hashes, hash_bits;
    const float *query, *key, *value;
    const uint32_t *query_codes, *key_codes; /* (n, num_hashes) */
    bool causal;                             /* query i sees keys 0 .. i */
    bool draws;                              /* hbe, else lss */
    uint64_t random_key;                     /* of draws */
};

/* out (n_q, d_v): the ratios; mass (n_q): their denominators, 0 for an empty sample. */
void oracle_samples_run(const struct oracle_samples *o, double *out, double *mass);

/* The collision probability of two rows in one hash of `bits` bits. A zero row has code 0. */
double oracle_sample_chance(const float *a, const float *b, size_t d, size_t bits);

/* exp(q.k / sqrt(d)). */
double oracle_sample_weight(const float *a, const float *b, size_t d);

#endif
