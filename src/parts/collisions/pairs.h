/* Gradients of unit queries and keys from all pairs that collide in a hash, bucket by bucket: with score =
   <dX_i, V_j> + bias_i, dq_i += w score k_j and dk_j += w score q_i, w as in slot pairs.bucket.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PAIRS_H
#define PARTS_PAIRS_H

#include "base/pool.h"
#include "parts/collisions/bucket_walk.h"
#include "parts/collisions/colliding_pairs.h"
#include "parts/collisions/dense_bucket.h"

/* Rows of one side. Buckets visit rows in no order, so everything that belongs to a row is adjacent: the
   unit row, its gradient, the row of dX (queries) or V (keys), and for keys, if pairs_are_near, the sum of
   dX of the queries that they collide with. */
struct pair_rows {
    float *unit, *gradient, *value, *sum; /* (n, ld), interleaved; sum: or NULL */
    size_t ld;
};

/* true if the rows, with sums, fit the cache budget: then pairs_add computes the sums while the rows are
   cached. Otherwise tables_sum is cheaper for the sums, because rows pass through the caches once per
   hash. */
bool pairs_are_near(size_t num_queries, size_t num_keys, size_t dim, size_t value_dim);

/* Sizes never fall with more rows: keys have room for sums even if they have none. */
void pair_rows_init(struct pair_rows *rows, struct arena *arena, size_t n, size_t dim, size_t value_dim,
                    bool of_keys, bool near);

struct pairs {
    struct pair_rows queries, keys;
    bool near;
    size_t dim, value_dim;
    const float *bias; /* (n_q) or NULL */
    float scale;       /* factor of w */
    enum pair_weight weight;
    bool once; /* a pair that collides in several hashes counts once; false: once per collision */
    size_t hash_bits;
    /* Not for PAIR_CONSTANT: a query takes at most max_partners keys of a bucket, drawn from partners_key;
       0: all. */
    size_t max_partners;
    uint64_t partners_key;
    /* Not with `once` and not with `near`: only so many hashes count, drawn from hashes_key, each num_hashes
       / gradient_hashes times; 0: all. */
    size_t gradient_hashes;
    uint64_t hashes_key;
    const size_t *visible; /* causal: (n_q) query i sees the first visible[i] keys; NULL: all */
};

/* Work space: the walk over the buckets, and each thread's memory. */
struct pair_work {
    struct bucket_walk walk;
    struct dense_scratch *dense;         /* (workers) */
    struct colliding_scratch *scratches; /* (workers) */
    float *of_count;                     /* (num_hashes + 1) factor of a pair by its number of collisions */
    uint32_t *hashes;                    /* (num_hashes) those that count */
};

void pair_work_init(struct pair_work *work, struct arena *arena, const struct hashing *hashing,
                    size_t num_queries, size_t num_keys, size_t dim, size_t value_dim, size_t workers);

/* Adds into the gradients of both sides, and into the sums of keys that have them, hash by hash. The buckets
   of one hash share no row, so threads of the pool (or NULL) visit them in parallel, and a row's sum has the
   same order for any number of threads. If the weight is not constant, and the first hash shows that the
   pairs of all hashes exceed n_q n_k, every pair of the head is weighed once, with its number of
   collisions. */
void pairs_add(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
               struct pair_work *work, const struct codes *queries, const struct codes *keys);

/* hashes (count + 1): `count` < num_hashes of them, drawn without replacement, ascending; then one that means
   nothing. */
void pairs_draw_hashes(uint32_t *hashes, size_t count, size_t num_hashes, uint64_t key);

#endif
