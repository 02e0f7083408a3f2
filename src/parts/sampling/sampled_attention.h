/* Attention estimated from a few keys of hash tables. With w_ij = exp(q_i.k_j / sqrt(d)) and Pr_ij the
   probability that key j is in the sample of query i,
     out_i = N_i / Z_i,   N_i = sum over the sample of g_ij w_ij v_j,   Z_i = sum over the sample of g_ij
   w_ij, where E[N_i] = sum_j w_ij v_j and E[Z_i] = sum_j w_ij over all visible keys (docs/MATH.md,
   section 8.1). The ratio is biased. A query with an empty sample gives 0.
   - SAMPLE_UNION: the keys that share a code with the query in at least one of m hashes; g = 1 / Pr, Pr = 1 -
     (1 - c)^m with c = (1 - angle / pi)^hash_bits, the probability to share one code.
   - SAMPLE_DRAWS: one key from the query's bucket of each hash; g = (keys in the bucket) / (m c).
   Hyperplanes are Gaussian: for others c is not exact, or hashes are not independent.
   Cost: hashing (2 n d m hash_bits operations), 4 n_k + 8 n_q bytes per hash, and per sampled key 2 (d + d_v)
   operations on rows that are gathered: bound by memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_SAMPLED_ATTENTION_H
#define PARTS_SAMPLED_ATTENTION_H

#include "base/options.h"
#include "parts/hashing/hasher.h"
#include "parts/problem/implementation.h"

enum sampling { SAMPLE_UNION, SAMPLE_DRAWS };

/* The options of a mechanism that samples keys, and their rows. */
struct sample_options {
    int64_t num_hashes, hash_bits; /* m, tau */
};

#define SAMPLE_OPTIONS(num_hashes_help)                                                                      \
    OPTION_ROW("num_hashes", OPTION_INT, offsetof(struct sample_options, num_hashes), 32, 1, 4096, NULL,     \
               num_hashes_help),                                                                             \
        OPTION_ROW("hash_bits", OPTION_INT, offsetof(struct sample_options, hash_bits), 8, 1, 24, NULL,      \
                   "bits per hash: vectors at angle a collide with probability (1 - a/pi)^hash_bits"),       \
    {                                                                                                        \
        .name = NULL                                                                                         \
    }

/* How rows are hashed: l2, Gaussian planes, the same bits on every instruction set. */
struct yoso_options sampled_hashing(const struct sample_options *options);

/* Z_i = exp(level[i]) * mass[i], (n_q) each. */
struct sampled_sums {
    float *level, *mass;
};

/* The functions of a mechanism. options: struct sample_options. Nothing is saved for a backward pass. */
const char *sampled_refuse(enum sampling sampling, const void *options, const struct problem_shape *shape);
size_t sampled_saved_size(const void *options, const struct problem_shape *shape);
size_t sampled_scratch_size(enum sampling sampling, const void *options, const struct problem_shape *shape);
/* sums: written, or NULL. */
void sampled_forward(enum sampling sampling, const struct problem *problem, struct view out,
                     const struct sampled_sums *sums);

/* Planes, once per call: the shared memory of its problems. */
size_t sampled_shared_size(const void *options, size_t head_dim);
size_t sampled_prepare_size(const void *options, size_t head_dim, size_t workers);
void sampled_prepare(const struct preparation *preparation);

#endif
