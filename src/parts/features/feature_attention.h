/* Attention through features: out_i = sum_j f(q_i).g(k_j) v_j / (sum_j f(q_i).g(k_j) + epsilon), with feature
   maps f and g of F numbers per row. The sums S = sum_j g(k_j) v_j^T (F, d_v) and z = sum_j g(k_j) are made
   once, so the cost is linear in n: 2 F d_v operations per key and 2 F d_v per query forward, three times
   that backward; causal problems keep running sums and compute 64 x 64 scores beside the diagonal. Source:
   Katharopoulos et al. 2020, equations 4 to 6 and 13 to 15.

   Levels, if given or found by the map (with epsilon 0 or negligible), multiply the weight of key j for query
   i by exp(levels.key[j] - levels.query[i]): a decay, or features of keys that are stored at a scale of their
   own. Sums are stored at the level of the queries that read them, so that no factor exceeds 1 and none is
   lost, whatever the range of the levels. Cost: 64 exponentials per query. If the map finds them, a query has
   the largest level of the keys it sees. Sums over all keys then follow the largest level so far; causal ones
   need a first pass over the keys for their levels.

   Rows are cut into blocks of FEATURE_BLOCK by shape. Each block has its own sums, which are then added in
   the order of blocks, so the bits do not depend on threads. Saved: denominators (n_q floats), the sums
   before each block (causal) or of all keys, and the levels of keys that the map finds (n_k doubles).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_ATTENTION_H
#define PARTS_FEATURE_ATTENTION_H

#include "parts/features/feature_levels.h"

enum { FEATURE_BLOCK = 16 * FEATURE_ROWS }; /* rows whose sums one thread makes */

/* What the problem does not have. Constant for a mechanism, unless it gives levels. */
struct feature_attention {
    struct feature_map map;
    float epsilon; /* added to the denominator */
    float floor;   /* a smaller denominator is replaced by this one, and has no gradient; 0: none */
    /* Optional, for a map that finds none. A query's level is at least that of every key it sees; it never
       falls with i, and if not causal is the same for all. */
    struct feature_levels levels;
    float *dkey_level, *dquery_level; /* backward: gradients are written here; NULL: not wanted */
};

size_t feature_attention_saved_size(const void *options, const struct problem_shape *shape,
                                    const struct feature_attention *attention);
size_t feature_attention_scratch_size(const void *options, const struct problem_shape *shape,
                                      const struct feature_attention *attention);

void feature_attention_forward(const struct problem *problem, const struct feature_attention *attention,
                               struct view out);
/* Adds to the gradients of query, key and value. out as forward wrote it. */
void feature_attention_backward(const struct problem *problem, const struct feature_attention *attention,
                                struct view out, struct view dout, const struct problem_gradients *gradients);

#endif
