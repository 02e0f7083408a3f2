/* Softmax attention of one head over a pattern of pairs of positions: out_i = sum_j p_ij v_j over the keys
   that the pattern pairs with query i, p_ij = exp(s_ij) / sum, s_ij = q_i k_j / sqrt(d), one softmax per
   query. A pattern is a list of parts: some queries, some keys, and a range of these keys for each of these
   queries, so that tiles/ can compute a part. Parts may share queries and keys; a pair that is in two parts
   counts twice.
   Forward computes the parts in order and merges each into the output: two results of a query with maxima
   m_1, m_2 and sums l_1, l_2 have the weights exp(m - max(m_1, m_2)) l (Milakov and Gimelshein 2018).
   Backward gives every part the merged maxima and sums, so its probabilities are those of the whole pattern.
   Cost: that of the pairs (tile_attention.h), and a pass over the outputs of a part's queries to merge them.
   Memory: one more output, two floats per query, and copies of the keys and values that a part lists.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_PATTERN_ATTENTION_H
#define PARTS_PATTERN_ATTENTION_H

#include "parts/tiles/tile_attention.h"

/* Rows first, first + step, ...: count of them; step >= 1. */
struct pattern_rows {
    size_t first, count, step;
};

struct pattern_part {
    struct pattern_rows queries, keys;
    const uint32_t *list; /* its keys are list[0 .. keys.count) instead, in any order; NULL: `keys` */
    /* As in tile_attention.h, queries and keys numbered within the part. NULL: every query sees all keys. */
    struct sight (*sight)(const void *argument, size_t query);
    const void *argument;
    size_t span; /* as in struct tile_attention */
};

/* The memory depends on the shape and these. It never falls as a size grows. */
struct pattern_sizes {
    size_t block; /* queries at a time, at most TILE_ATTENTION_BLOCK; they share the range that any sees */
    size_t most_span;   /* largest span of a part */
    size_t most_listed; /* longest list of a part */
};

/* What a pattern adds to the problem. With dropout, a pair has a draw in each part. */
struct pattern_attention {
    struct pattern_sizes sizes;
    const struct pattern_part *parts; /* (num_parts); those without queries or keys are skipped */
    size_t num_parts;
    struct softmax_rows rows; /* (n_q): forward writes, backward reads */
};

/* Bytes of the scratch, for either direction. */
size_t pattern_attention_size(const struct problem_shape *shape, const struct pattern_sizes *sizes);

/* Writes out (n_q, d_v): 0 for a query in no pair. */
void pattern_attention_forward(const struct problem *problem, const struct pattern_attention *attention,
                               struct view out, void *scratch);

/* Adds to the gradients of query, key and value. A query in no pair has none. */
void pattern_attention_backward(const struct problem *problem, const struct pattern_attention *attention,
                                struct view out, struct view dout, const struct problem_gradients *gradients,
                                void *scratch);

#endif
