/* Attention through features: out_i = sum_j f(q_i).g(k_j) v_j / (sum_j f(q_i).g(k_j) + epsilon), with feature
   maps f and g of F numbers per row. The sums S = sum_j g(k_j) v_j^T (F, d_v) and z = sum_j g(k_j) are made
   once, so the cost is linear in n: 2 F d_v operations per key and 2 F d_v per query forward, three times
   that backward; causal problems keep running sums and compute 64 x 64 scores beside the diagonal. Source:
   Katharopoulos et al. 2020, equations 4 to 6 and 13 to 15.

   Levels, if given (with epsilon 0 or negligible), multiply the weight of key j for query i by
   exp(levels.key[j] - levels.query[i]): a decay, or features of keys that are stored at a scale of their own.
   Sums are stored at the level of the queries that read them, so that no factor exceeds 1 and none is lost,
   whatever the range of the levels. Cost: 64 exponentials per query.

   Rows are cut into blocks of FEATURE_BLOCK by shape. Each block has its own sums, which are then added in
   the order of blocks, so the bits do not depend on threads. Saved: denominators (n_q floats), and
   the sums before each block (causal) or of all keys.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_FEATURE_ATTENTION_H
#define PARTS_FEATURE_ATTENTION_H

#include "base/pool.h"
#include "parts/features/feature_levels.h"
#include "parts/rows/view.h"

enum { FEATURE_BLOCK = 16 * FEATURE_ROWS }; /* rows whose sums one thread makes */

enum feature_side { FEATURE_QUERY, FEATURE_KEY };

/* One map for queries and keys, or two that differ by the side. */
struct feature_map {
    const struct kernels *kernels;
    size_t count, dim; /* F; width of the rows */
    const void *self;  /* of the functions */
    size_t scratch;    /* bytes that each call may use */
    /* Writes phi (rows, count), adjacent, for rows x (rows, dim). */
    void (*forward)(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                    size_t rows, float *phi, void *scratch);
    /* (optional) After `forward` of keys, from its scratch: the level of each row, by which forward has
       divided its features. */
    void (*levels)(const struct feature_map *map, size_t rows, const void *scratch, double *level);
    /* Adds the gradient of x to dx, from x, its features and their gradient, which it may overwrite. */
    void (*backward)(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                     size_t rows, const float *phi, float *dphi, float *dx, size_t ld_dx, void *scratch);
};

struct feature_attention {
    struct feature_map map;
    struct pool *pool; /* or NULL */
    size_t workers;    /* threads of the pool; >= 1 */
    size_t num_queries, num_keys, value_dim;
    float epsilon;         /* added to the denominator */
    float floor;           /* a smaller denominator is replaced by this one, and has no gradient; 0: none */
    bool causal;           /* query i sees the first visible[i] keys, which never falls with i */
    const size_t *visible; /* (num_queries), or NULL */
    struct view query, key, value;
    /* Optional. A query's level is at least that of every key it sees; it never falls with i, and if not
       causal is the same for all. */
    struct feature_levels levels;
    /* Forward, not causal: (num_keys) receives the levels of keys from map.levels, and is levels.key;
       levels.query is not read. Saves a pass over the keys that only finds their levels. NULL: levels are
       given. */
    double *found_levels;
    float *dkey_level, *dquery_level; /* backward: gradients are written here; NULL: not wanted */
    void *saved;                      /* feature_attention_saved_size bytes: forward writes, backward reads */
};

/* Sizes depend on the counts, widths, workers and `causal` only, and never fall with more rows. */
size_t feature_attention_saved_size(const struct feature_attention *attention);
size_t feature_attention_scratch_size(const struct feature_attention *attention);

void feature_attention_forward(const struct feature_attention *attention, struct view out, void *scratch);
/* Adds to dquery, dkey and dvalue. out as forward wrote it. */
void feature_attention_backward(const struct feature_attention *attention, struct view out, struct view dout,
                                struct view dquery, struct view dkey, struct view dvalue, void *scratch);

#endif
