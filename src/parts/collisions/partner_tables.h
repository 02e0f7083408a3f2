/* Tables of only the codes that both sides have: for rows so few that most buckets of a table would be empty
   or have rows of one side only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PARTNER_TABLES_H
#define PARTS_PARTNER_TABLES_H

#include "base/pool.h"
#include "parts/collisions/partners.h"

struct partner_tables {
    struct hashing hashing;
    struct code_columns query_columns, key_columns;
    size_t workers, capacity;  /* floats of a table */
    struct partners *partners; /* (workers) */
    float *table;              /* (workers, capacity) */
};

/* hash_bits: at most PARTNER_BITS. Sizes never fall with more rows. */
void partner_tables_init(struct partner_tables *tables, struct arena *arena, const struct hashing *hashing,
                         size_t num_queries, size_t num_keys, size_t dim, size_t workers);

/* The rows that one side gives and the other receives: out_i += value_j for each hash in which i and j have
   the same code. */
struct table_sums {
    const struct codes *queries, *keys;
    bool to_queries;     /* keys give; false: queries give */
    const float *values; /* (giving rows, dim) */
    size_t ld_values;    /* may be 0: one row for all */
    float *out;          /* (receiving rows, dim), added into */
    size_t ld_out, dim;
};

/* Adds into out with the bits of tables_sum. */
void partner_tables_sum(const struct kernels *kernels, struct pool *pool, struct partner_tables *tables,
                        const struct table_sums *sums);

#endif
