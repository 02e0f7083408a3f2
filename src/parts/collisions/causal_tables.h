/* Hash tables in token order: a query reads only what the keys that it sees have added.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CAUSAL_TABLES_H
#define PARTS_CAUSAL_TABLES_H

#include "kernels/kernels.h"
#include "parts/hashing/codes.h"

/* One pass over some hashes and columns. */
struct causal_pass {
    const struct codes *queries, *keys;
    const size_t *visible; /* (queries) query i sees the first visible[i] keys; never falls */
    float *table;          /* (count, buckets, dim): the sums so far, zeros at first */
    size_t buckets, first, count, dim;
    const float *values; /* rows of the giving side */
    float *out;          /* rows of the receiving side, added into */
    size_t ld_values, ld_out;
};

/* out of query i += its codes' rows, after the first visible[i] keys were added; keys that no query sees are
   skipped. */
void causal_keys_to_queries(const struct kernels *kernels, const struct causal_pass *pass);

/* The backward pass: out of key j += its codes' rows, after all queries that see it were added, starting
   with the last key. */
void causal_queries_to_keys(const struct kernels *kernels, const struct causal_pass *pass);

#endif
