/* Stage pairs: what the rows of a bucket give to each other. kernels.h has the rules of all contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_PAIRS_H
#define KERNELS_SLOTS_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How slot pairs.bucket weighs a pair; formulas there. */
enum pair_weight {
    PAIR_CONSTANT, /* all pairs the same */
    PAIR_TANGENT,  /* the derivative of p^hash_bits over p^hash_bits, in a form without pole */
    PAIR_FLOORED, /* the same, plainly, of a sine no less than PAIR_LEAST_SINE: where nothing cancels the pole
                   */
    PAIR_SHRUNK,  /* the derivative of p^hash_bits itself, at PAIR_SHRINK times the cosine */
};

/* See pairs.bucket. */
#define PAIR_SHRINK 0.99f

/* See PAIR_FLOORED: 1 - x^2 is no less than 1e-4. */
#define PAIR_LEAST_SINE 0.01f

/* One bucket of one hash: queries and keys that share a code, as row numbers. See pairs.bucket. */
struct bucket_pairs {
    const uint32_t *queries, *keys; /* (num_queries), (num_keys) */
    size_t num_queries, num_keys;
    const float *query, *key, *value, *dout; /* rows; those of query and key have length 1 or 0 */
    size_t ld_query, ld_key, ld_value, ld_dout;
    size_t dim, value_dim;
    const float *bias;    /* per query row, added to <dout_i, value_j>; or NULL */
    float *dquery, *dkey; /* rows as query and key (same ld), added into */
    float scale;          /* of every pair's weight */
    const float *times;   /* (num_queries, num_keys), ld_times: of each pair's weight; NULL: 1 */
    size_t ld_times;
    enum pair_weight weight;
    unsigned hash_bits;
    bool far; /* for lists of buckets: rows lie beyond the second cache, and are asked for ahead */
};

/* Rows of both sides that share a code, as places in two lists of row numbers. */
struct bucket {
    uint32_t first_query, num_queries, first_key, num_keys;
};

/* What one side of some buckets gives to the other: see pairs.carry. */
struct bucket_carry {
    const struct bucket *buckets; /* (count) */
    size_t count;
    const uint32_t *queries, *keys; /* lists of row numbers; those of a bucket rise */
    const size_t *visible;          /* per query: only so many keys, from the first on, are met; NULL: all */
    bool to_queries;                /* else to the keys */
    const float *values;            /* rows of the giving side */
    float *out;                     /* rows of the receiving side, added into */
    size_t ld_values, ld_out, dim;  /* ld_values may be 0 (one row for all) */
};

struct pairs_slots {
    /* times[i * ld + j] = of_count[number of hashes in which row queries[i] and row keys[j] have the same
       code]. codes as hash.codes, (n, num_hashes); of_count (num_hashes + 1). EXACT. */
    void (*meetings)(float *times, size_t ld, const void *query_codes, const void *key_codes, bool wide,
                     size_t num_hashes, const float *of_count, const uint32_t *queries, size_t num_queries,
                     const uint32_t *keys, size_t num_keys);

    /* All pairs (i, j) of one bucket. score = (<dout_i, value_j> + bias_i) * scale * times_ij.
       Constant: w = score; dquery_i += w key_j; dkey_j += w query_i.
       Shrunk: the same with w = score * hash_bits p^(hash_bits-1) / (pi s), where p = 1 - acos(x) / pi, s =
       sqrt(1 - x^2) and x = PAIR_SHRINK <query_i, key_j>.
       Tangent: with u = |q-k|, v = |q+k| (from differences and sums of the rows, never from the dot product;
       the larger may be taken from u^2 + v^2 = 4), angle = 2 atan2(u, v), p = 1 - angle / pi, s = u v / 2
       (the sine) and sigma = the sign of <q, k> (v >= u: 1, else -1): w = score * hash_bits / (p pi s), 0
       where s = 0 or p = 0; dquery_i += w (key_j - sigma query_i); dkey_j += w (query_i - sigma key_j).
       Floored: the same w with s no less than PAIR_LEAST_SINE, 0 where p = 0, added as a constant one.
       (The caller projects on the tangent, which removes the part along query_i exactly as the formula wants.
       A pair with a row of length 0 gets some finite weight: the projection removes its part from the other
       row, and nothing reads its own.) TOLERANT. About 6 dim operations a pair, and six rows moved. */
    void (*bucket)(const struct bucket_pairs *bucket);

    /* For each bucket, out of each receiving row += (((0 + a) + b) + ...), a, b, ... the values of the giving
       rows in order, or to the keys with visible: from the last one on. With visible only those that meet:
       query i and the keys below visible[i], which never falls. EXACT. */
    void (*carry)(const struct bucket_carry *carry);

    /* What pairs.bucket does for each bucket of a list (count): the queries and keys of `rows` are the lists
       of row numbers, its counts and times are not looked at. TOLERANT. For buckets of a pair or two, where a
       call for each would be most of the time. */
    void (*bucket_list)(const struct bucket_pairs *rows, const struct bucket *list, size_t count);
};

#endif
