/* The tables of one head as a state: a stream of keys is added to it, and queries read it. All hashes and
   columns are held at once, num_hashes * 2^hash_bits * dim floats, in an order that depends only on these
   numbers: slices of columns, and hash after hash within a slice.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TABLE_STATE_H
#define PARTS_TABLE_STATE_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "parts/hashing/codes.h"

struct table_state {
    struct hashing hashing;
    size_t dim; /* columns of values */
    float *tables;
};

/* Floats of the tables; SIZE_MAX on overflow. */
size_t table_state_floats(const struct hashing *hashing, size_t dim);

/* Rows that take part in one call. */
struct table_rows {
    const struct codes *codes;
    const float *values; /* keys: rows to add; ld may be 0 (one row for all) */
    size_t ld_values;
    float *out; /* queries: added into */
    size_t ld_out;
};

/* Adds keys. Adding in pieces, cut at any rows, gives the same bits. */
void table_state_add(const struct kernels *kernels, struct pool *pool, const struct table_state *state,
                     const struct table_rows *keys);
/* out of every query += the rows of its codes, hashes in rising order. */
void table_state_read(const struct kernels *kernels, struct pool *pool, const struct table_state *state,
                      const struct table_rows *queries);
/* Both, in token order: query i is read after the first visible[i] keys were added. All keys have been added
   at the end. */
void table_state_scan(const struct kernels *kernels, struct pool *pool, const struct table_state *state,
                      const struct table_rows *queries, const struct table_rows *keys, const size_t *visible);

#endif
