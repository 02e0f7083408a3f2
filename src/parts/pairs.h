/* Gradients of unit queries and keys from all pairs that meet in a hash, bucket by bucket: for every such
   pair, with score = <dX_i, V_j> + bias_i, dq_i += w score k_j and dk_j += w score q_i, w as slot
   bucket_pairs has it. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PAIRS_H
#define PARTS_PAIRS_H

#include "base/pool.h"
#include "parts/buckets.h"
#include "parts/crowd.h"
#include "parts/meeting_lists.h"
#include "parts/meetings.h"

/* Rows of one side. Buckets visit rows in no order, so what belongs to a row lies in one place:
   unit row, its gradient, and the row of dX (queries) or V (keys). */
struct pair_rows {
    float *unit, *gradient, *value; /* (n, ld), each with its own start */
    size_t ld;
};

void pair_rows_lay_out(struct pair_rows *rows, struct arena *arena, size_t n, size_t dim, size_t value_dim);

struct pairs {
    struct pair_rows queries, keys;
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
    struct meeting_lists *lists; /* work space */
    const size_t *visible;       /* causal: (n_q) the first so many keys are seen; NULL: all */
};

/* Work space: the hash that is walked and the next one, and what each thread needs for crowded buckets. */
struct pair_work {
    struct buckets buckets[2];
    struct crowd *crowds;         /* (workers) */
    struct meeting_space *spaces; /* (workers) */
    float *sums;                  /* (workers, ld_sums) a row of dV */
    size_t ld_sums;
    float *of_count; /* (num_hashes + 1) what a pair that meets so often is multiplied by */
};

void pair_work_lay_out(struct pair_work *work, struct arena *arena, size_t num_queries, size_t num_keys,
                       size_t dim, size_t value_dim, size_t num_hashes, size_t workers);

/* Whether few enough rows meet, and weights are constant, so that pairs_list is cheaper than tables for dV
   and pairs_add. */
bool pairs_are_few(const struct pairs *pairs, const struct codes *queries, const struct codes *keys);

/* Does what pairs_add does, by lists of meetings, and adds value_scale times the sum over meetings of dX_i
   into row j of dvalue. `lists` of pairs must be laid out for both sides. Threads take different rows, and a
   row's sum has the same order for any number of them. */
void pairs_list(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
                struct pair_work *work, const struct codes *queries, const struct codes *keys, float *dvalue,
                size_t ld_dvalue, float value_scale);

/* Adds into the gradients of both sides, hash by hash. The buckets of one hash share no row, so threads of
   the pool (or NULL) walk them side by side, and a row's sum has the same order for any number of threads.
   Where the weight is not constant, and the first hash says that codes crowd so much that the pairs of all
   hashes are more than n_q n_k, every pair of the head is weighed once instead, with its number of meetings.
 */
void pairs_add(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
               struct pair_work *work, const struct codes *queries, const struct codes *keys);

#endif
