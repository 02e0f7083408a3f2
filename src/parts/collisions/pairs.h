/* Gradients of unit queries and keys from all pairs that meet in a hash, bucket by bucket: for every such
   pair, with score = <dX_i, V_j> + bias_i, dq_i += w score k_j and dk_j += w score q_i, w as slot
   pairs.bucket has it. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PAIRS_H
#define PARTS_PAIRS_H

#include "base/pool.h"
#include "parts/collisions/bucket_walk.h"
#include "parts/collisions/crowd.h"
#include "parts/collisions/meetings.h"

/* Rows of one side. Buckets visit rows in no order, so what belongs to a row lies in one place:
   unit row, its gradient, the row of dX (queries) or V (keys), and of keys the sum of the dX of the queries
   that they meet, where they are near. */
struct pair_rows {
    float *unit, *gradient, *value, *sum; /* (n, ld), each with its own start; sum: or NULL */
    size_t ld;
};

/* Whether so many rows, with sums, are near: then pairs_add makes the sums while rows are at hand. Others
   pass the caches once a hash, where tables_carry is cheaper. */
bool pairs_are_near(size_t num_queries, size_t num_keys, size_t dim, size_t value_dim);

/* Never less for more rows: keys have room for sums even where they have none. */
void pair_rows_lay_out(struct pair_rows *rows, struct arena *arena, size_t n, size_t dim, size_t value_dim,
                       bool of_keys, bool near);

struct pairs {
    struct pair_rows queries, keys;
    bool near;
    size_t dim, value_dim;
    const float *bias; /* (n_q) or NULL */
    float scale;       /* of w */
    enum pair_weight weight;
    bool once; /* a pair that meets in several hashes counts once; false: as often as it meets */
    size_t hash_bits;
    /* Not for PAIR_CONSTANT: of more than so many keys of a bucket, a query takes so many, drawn from the
       key; 0: all. */
    size_t max_partners;
    uint64_t partners_key;
    const size_t *visible; /* causal: (n_q) the first so many keys are seen; NULL: all */
};

/* Work space: what each thread needs for crowded buckets, and the walk over them. */
struct pair_work {
    struct bucket_walk walk;
    struct crowd *crowds;         /* (workers) */
    struct meeting_space *spaces; /* (workers) */
    float *of_count;              /* (num_hashes + 1) what a pair that meets so often is multiplied by */
};

void pair_work_lay_out(struct pair_work *work, struct arena *arena, const struct hashing *hashing,
                       size_t num_queries, size_t num_keys, size_t dim, size_t value_dim, size_t workers);

/* Adds into the gradients of both sides, and into the sums of keys that have them, hash by hash. The buckets
   of one hash share no row, so threads of the pool (or NULL) walk them side by side, and a row's sum has the
   same order for any number of threads. Where the weight is not constant, and the first hash says that codes
   crowd so much that the pairs of all hashes are more than n_q n_k, every pair of the head is weighed once
   instead, with its number of meetings.
 */
void pairs_add(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
               struct pair_work *work, const struct codes *queries, const struct codes *keys);

#endif
