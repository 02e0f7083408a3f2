/* Carrying rows through hash tables: out_i = sum over hashes h and rows j with code_h(j) = code_h(i) of
   value_j. With keys as the source this is YOSO's forward, with queries as the source it is dV.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_HASH_TABLES_H
#define PARTS_HASH_TABLES_H

#include "base/memory.h"
#include "base/pool.h"
#include "parts/bucket_walk.h"

struct tables {
    struct hashing hashing;
    bool by_buckets; /* no tables: there are too many codes for so few rows */
    size_t buckets;  /* rows of the table of one hash */
    size_t columns;  /* of a pass, at most */
    size_t capacity; /* floats of a pass of one thread */
    size_t workers;
    float *table; /* (workers, capacity) */
    struct bucket_walk walk;
    /* Set by the caller: NULL, or how many keys each query sees, from the first on: pairs beyond are left
       out. (parts/causal_tables.h) */
    const size_t *visible;
};

/* Takes the memory for tables of rows of `dim` floats, for so many threads, out of the arena; never less for
   more rows. */
void tables_lay_out(struct tables *tables, struct arena *arena, const struct hashing *hashing,
                    size_t num_queries, size_t num_keys, size_t dim, size_t workers);

enum tables_direction { KEYS_TO_QUERIES, QUERIES_TO_KEYS };

/* Adds into out (rows of the receiving side, ld_out), over hashes in rising order, and within a hash the rows
   of the giving side in rising order: the bits depend on nothing else. dim as laid out or less; ld_values may
   be 0 (one row for all). pool: the threads that it was laid out for, or NULL. */
void tables_carry(const struct kernels *kernels, struct pool *pool, struct tables *tables,
                  const struct codes *queries, const struct codes *keys, enum tables_direction direction,
                  const float *values, size_t ld_values, float *out, size_t ld_out, size_t dim);

#endif
