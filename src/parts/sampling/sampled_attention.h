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

#include "base/pool.h"
#include "parts/hashing/hasher.h"

enum sampling { SAMPLE_UNION, SAMPLE_DRAWS };

struct sampled_attention {
    /* Sizes depend on these only. */
    enum sampling sampling;
    struct yoso_options hashing; /* of sampled_hashing */
    size_t num_queries, num_keys, dim, value_dim, workers;
    /* Forward. */
    const struct kernels *kernels;
    struct pool *pool; /* or NULL */
    struct view query, key, value;
    const size_t *visible; /* (num_queries) query i sees the first visible[i] keys; NULL: all */
    const float *planes;   /* planes_draw of hasher_form(&hashing, dim) */
    uint64_t random_key;   /* of the rotation of the planes and of draws */
    /* Z_i = exp(level[i]) * mass[i], (num_queries) each: written; or both NULL. */
    float *level, *mass;
};

/* How rows are hashed: l2, Gaussian planes, the same bits on every instruction set. */
struct yoso_options sampled_hashing(int64_t num_hashes, int64_t hash_bits);

size_t sampled_attention_scratch_size(const struct sampled_attention *attention);
void sampled_attention_forward(const struct sampled_attention *attention, struct view out, void *scratch);

#endif
