/* Softmax attention over a choice of rows (kv_choice.h), for queries that share it. The choice is cut into
   parts of KV_READ_ROWS rows, each with sums of its own, which are merged in order.
   The error is estimated from the sample: with a_i = w_i^2 (1 - p_i) / p_i^2, for a weight w_i taken with
   probability p_i, the variance of the output is about sum_i a_i |v_i - out|^2 over the square of the
   denominator.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_READ_H
#define DECODING_KV_READ_H

#include "base/memory.h"
#include "decoding/kv_cache_mechanism.h"
#include "decoding/kv_choice.h"
#include "parts/rows/elements.h"

enum { KV_READ_ROWS = 256 };

struct kv_read {
    const struct kv_cache *cache;
    size_t sequence, kv_head;
    size_t rows_at; /* bytes from the start of a head's page to its rows, each a key and its value */
    const struct kv_choice *choice;
    size_t queries;
    const float *query; /* (queries, head_dim) */
    /* The probability that a row is taken by this query, given that it is in the choice's sample; NULL: 1. */
    float (*chance)(const struct kv_read *read, size_t query, size_t row);
    const void *of_chance;
    size_t certain; /* the first rows of the choice, for which it is 1 whatever `chance` says */
};

/* Of a part, and memory to compute them in. */
struct kv_read_sums {
    float *most, *sum;       /* (queries): the largest scaled score, and the sum of the weights below it */
    float *spread, *squares; /* (queries): of a_i, and of a_i |v_i|^2 */
    float *out;              /* (2, queries, head_dim): of w_i / p_i v_i, and of a_i v_i */
};
struct kv_read_scratch {
    const unsigned char **key, **value; /* (KV_READ_ROWS) */
    float *weight;                      /* (2, queries, KV_READ_ROWS) */
};
struct kv_read_sums kv_read_sums_lay_out(struct arena *arena, size_t queries, size_t head_dim);
struct kv_read_scratch kv_read_scratch_lay_out(struct arena *arena, size_t queries);

static inline size_t kv_read_parts(size_t rows)
{
    return (rows + KV_READ_ROWS - 1) / KV_READ_ROWS;
}

void kv_read_part(const struct kv_read *read, size_t part, const struct kv_read_scratch *scratch,
                  const struct kv_read_sums *sums);
/* out (head_dim) = attention of a query, from the sums of all parts; returns its relative error. */
double kv_read_merge(const struct kv_read *read, size_t query, const struct kv_read_sums *sums, size_t parts,
                     float *out);

#endif
