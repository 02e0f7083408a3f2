/* Carrying rows through hash tables: out_i = sum over hashes h and rows j with code_h(j) = code_h(i) of
   value_j. With keys as the source this is YOSO's forward, with queries as the source it is dV.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASH_TABLES_H
#define PARTS_HASH_TABLES_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/collisions/bucket_walk.h"
#include "parts/collisions/fixed_values.h"
#include "parts/collisions/partner_tables.h"

struct tables {
    struct hashing hashing;
    /* In place of tables, if rows are few for the codes. */
    enum { BY_TABLES, BY_PARTNERS, BY_BUCKETS } means;
    size_t buckets;  /* rows of the table of one hash */
    size_t capacity; /* floats of a pass of one thread */
    size_t workers;
    float *table; /* (workers, capacity) */
    struct bucket_walk walk;
    struct partner_tables partners;
    size_t fixed_columns; /* of a pass of 16-bit numbers, at most */
    struct fixed_values fixed;
    /* Set by the caller: query i sees the first visible[i] keys, and other pairs are skipped; NULL: all.
       (parts/collisions/causal_tables.h) */
    const size_t *visible;
};

/* Takes the memory for tables of rows of `dim` floats on `workers` threads from the arena; sizes never fall
   with more rows. causal: `visible` may be set. fixed: for tables_sum_fixed too. */
void tables_init(struct tables *tables, struct arena *arena, const struct hashing *hashing,
                 size_t num_queries, size_t num_keys, size_t dim, size_t workers, bool causal, bool fixed);

/* Adds over hashes in rising order, and within a hash over the giving rows in rising order: the bits depend
   on nothing else. rows->dim: at most as laid out. pool: with the number of threads laid out, or NULL. */
void tables_sum(const struct kernels *kernels, struct pool *pool, struct tables *tables,
                const struct table_sums *rows);

/* Keys to queries with sums in 16-bit integers, in 0.7 of the time (kernels/simd_fixed.h). Equals
   tables_sum exactly for values rounded to multiples of a step (fixed_values.h). Returns false and writes
   nothing if the step would be too coarse (crowded buckets; outliers), or if there are no tables, a causal
   view, wide codes, or fewer than FIXED_BLOCK columns. For normal values and vectors and 9 bits, a step is
   1 / 480 of it at n 1024, 1 / 166 at 4096, 1 / 84 at 8192, and too coarse at 16384. out must be zeros,
   values finite. */
bool tables_sum_fixed(const struct kernels *kernels, struct pool *pool, struct tables *tables,
                      const struct table_sums *rows);

#endif
