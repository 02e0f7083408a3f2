/* Add then read, token by token: the tables are prefix sums forward, suffix sums backward. Cost: the
   additions and reads of tables that are not causal, one row at a time. SPDX-License-Identifier: Apache-2.0
 */
#include "parts/causal_tables.h"

/* Rows [row, row + n) of one side are added. */
static void add(const struct kernels *kernels, const struct causal_pass *pass, const struct codes *codes,
                size_t row, size_t n)
{
    kernels->table_add(pass->table, pass->buckets, codes_row(codes, row), codes->wide, codes->num_hashes,
                       pass->first, pass->count, pass->values + row * pass->ld_values, pass->ld_values, n,
                       pass->dim);
}

static void read(const struct kernels *kernels, const struct causal_pass *pass, const struct codes *codes,
                 size_t row)
{
    kernels->table_read(pass->out + row * pass->ld_out, pass->ld_out, pass->table, pass->buckets,
                        codes_row(codes, row), codes->wide, codes->num_hashes, pass->first, pass->count, 1,
                        pass->dim);
}

void causal_keys_to_queries(const struct kernels *kernels, const struct causal_pass *pass)
{
    size_t added = 0;
    for (size_t i = 0; i < pass->queries->n; i++) {
        if (pass->visible[i] > added)
            add(kernels, pass, pass->keys, added, pass->visible[i] - added);
        added = pass->visible[i];
        read(kernels, pass, pass->queries, i);
    }
}

void causal_queries_to_keys(const struct kernels *kernels, const struct causal_pass *pass)
{
    size_t left = pass->queries->n;
    for (size_t j = pass->keys->n; j-- > 0;) {
        while (left > 0 && pass->visible[left - 1] > j)
            add(kernels, pass, pass->queries, --left, 1);
        read(kernels, pass, pass->keys, j);
    }
}
