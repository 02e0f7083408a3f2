/* Stage pairs: interactions of rows that share a bucket. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_PAIRS_H
#define KERNELS_SLOTS_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The weight of a pair in slot pairs.bucket, which has the formulas. */
enum pair_weight {
    PAIR_CONSTANT, /* the same for all pairs */
    PAIR_TANGENT,  /* the derivative of p^hash_bits over p^hash_bits, in a form without a pole */
    PAIR_FLOORED,  /* the same, sine floored at PAIR_LEAST_SINE, pole not cancelled */
    PAIR_SHRUNK,   /* the derivative of p^hash_bits, at PAIR_SHRINK times the cosine */
};

/* The factor of the cosine in PAIR_SHRUNK. */
#define PAIR_SHRINK 0.99f

/* The least sine s of PAIR_FLOORED: 1 - x^2 is at least 1e-4. */
#define PAIR_LEAST_SINE 0.01f

/* One bucket of one hash: queries and keys that share a code, as row numbers. See pairs.bucket. */
struct bucket_pairs {
    const uint32_t *queries, *keys; /* (num_queries), (num_keys) */
    size_t num_queries, num_keys;
    const float *query, *key, *value, *dout; /* rows; those of query and key have length 1 or 0 */
    size_t ld_query, ld_key, ld_value, ld_dout;
    size_t dim, value_dim;
    const float *bias;    /* per query row, added to <dout_i, value_j>; or NULL */
    float *dquery, *dkey; /* rows as query and key (same ld), accumulated */
    float scale;          /* of every pair's weight */
    const float *times;   /* (num_queries, num_keys), ld_times: a factor for each weight; NULL: 1 */
    size_t ld_times;
    enum pair_weight weight;
    unsigned hash_bits;
    bool far; /* for lists of buckets: rows do not fit the second-level cache, so prefetch them */
};

/* The rows that share a code, as positions in two lists of row numbers. */
struct bucket {
    uint32_t first_query, num_queries, first_key, num_keys;
};

/* Arguments of pairs.bucket_sums: one side of each bucket gives, the other receives. */
struct bucket_sums {
    const struct bucket *buckets; /* (count) */
    size_t count;
    const uint32_t *queries, *keys; /* lists of row numbers, ascending within a bucket */
    const size_t *visible;          /* per query: number of leading keys that it sees; NULL: all */
    bool to_queries;                /* false: to the keys */
    const float *values;            /* rows of the giving side */
    float *out;                     /* rows of the receiving side, accumulated */
    size_t ld_values, ld_out, dim;  /* ld_values may be 0 (one row for all) */
};

struct pairs_slots {
    /* times[i * ld + j] = of_count[number of hashes in which row queries[i] and row keys[j] have the same
       code]. codes as hash.codes, (n, num_hashes); of_count (num_hashes + 1). EXACT. */
    void (*equal_codes)(float *times, size_t ld, const void *query_codes, const void *key_codes, bool wide,
                        size_t num_hashes, const float *of_count, const uint32_t *queries, size_t num_queries,
                        const uint32_t *keys, size_t num_keys);

    /* All pairs (i, j) of one bucket. score = (<dout_i, value_j> + bias_i) * scale * times_ij.
       Constant: w = score; dquery_i += w key_j; dkey_j += w query_i.
       Shrunk: the same with w = score * hash_bits p^(hash_bits-1) / (pi s), where p = 1 - acos(x) / pi, s =
       sqrt(1 - x^2) and x = PAIR_SHRINK <query_i, key_j>.
       Tangent: with u = |q-k|, v = |q+k| (from differences and sums of the rows, never from the dot product;
       the larger may come from u^2 + v^2 = 4), angle = 2 atan2(u, v), p = 1 - angle / pi, s = u v / 2 (the
       sine) and sigma = the sign of <q, k> (v >= u: 1, else -1): w = score * hash_bits / (p pi s), or 0 if s
       = 0 or p = 0; dquery_i += w (key_j - sigma query_i); dkey_j += w (query_i - sigma key_j).
       Floored: the same w with s at least PAIR_LEAST_SINE, 0 if p = 0; rows are added as for constant.
       The caller projects on the tangent, which removes the part along query_i exactly as the formula
       requires. A pair with a row of length 0 gets some finite weight: the projection removes its part from
       the other row, and the gradient of the zero row is never read.
       TOLERANT. About 6 dim operations per pair; six rows are moved. */
    void (*bucket)(const struct bucket_pairs *bucket);

    /* For each bucket, out of each receiving row += (((0 + a) + b) + ...), where a, b, ... are the values of
       the giving rows in order, or from the last one on if the keys receive and visible is set. With visible,
       query i sees only the keys below visible[i], which never decreases. EXACT. */
    void (*bucket_sums)(const struct bucket_sums *sums);

    /* pairs.bucket for each bucket of a list (count). queries and keys of `rows` are the lists of row
       numbers; its num_queries, num_keys and times are ignored. TOLERANT. For buckets of one or two pairs,
       for which the calls would dominate. */
    void (*bucket_list)(const struct bucket_pairs *rows, const struct bucket *list, size_t count);
};

#endif
