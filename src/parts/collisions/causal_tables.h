/* Hash tables in the order of the tokens: a query reads what the keys that it sees have added, and no more.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CAUSAL_TABLES_H
#define PARTS_CAUSAL_TABLES_H

#include "kernels/kernels.h"
#include "parts/hashing/codes.h"

/* One pass over some hashes and columns. */
struct causal_pass {
    const struct codes *queries, *keys;
    const size_t *visible; /* (queries) the first so many keys are seen; never falls */
    float *table;          /* (count, buckets, dim): what was added before this pass, zeros at first */
    size_t buckets, first, count, dim;
    const float *values; /* rows of the giving side */
    float *out;          /* rows of the receiving side, added into */
    size_t ld_values, ld_out;
};

/* out of query i += its codes' rows, after the first visible[i] keys were added; keys that no query sees are
   left out. */
void causal_keys_to_queries(const struct kernels *kernels, const struct causal_pass *pass);

/* The way back: out of key j += its codes' rows, after all queries that see it were added, from the last one
   on. */
void causal_queries_to_keys(const struct kernels *kernels, const struct causal_pass *pass);

#endif
