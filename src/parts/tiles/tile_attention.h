/* Softmax attention of one head in tiles, where each query sees a stretch of keys: out_i = sum_j p_ij v_j
   over the keys first_i .. end_i - 1, p_ij = exp(s_ij - max_i) / sum_i, s_ij = q_i k_j / sqrt(d) (Vaswani et
   al. 2017; Dao et al. 2022). No n x n array exists: the running softmax carries a maximum and a sum per
   query (Milakov and Gimelshein 2018). Cost: 2 (d + d_v) operations and one exponential a pair that is
   seen, 2.5 times that backward, which makes the probabilities again from scores; tiles that no query of a
   block sees are left out, and the scores of unseen keys in the others are -inf. Order of loops: operands of
   a product should be adjacent and in the nearest cache. So a group of rows is copied out of the caller's
   strided views once, and everything of the other side passes by in tiles: forward holds a group of queries
   and turns a tile of keys for all of it; backward holds a group of keys. Scratch therefore does not grow
   with n (but for one float per query). Threads: groups of queries forward. Backward, where sights are long,
   a grid of groups of keys and blocks of queries, in which dQ is summed along a column and dK, dV along a
   row; where they are short
   (`span`), groups so long that every other one meets queries of its own: first the even ones, side by side,
   then the odd ones. Scores may have terms for how far keys are from their queries (relative_terms.h), whose
   gradients each group of keys sums on its own, so that scratch grows by at most a row of the head for each
   key. With precision bf16 the operands of every product are rounded, probabilities too;
   scores, maxima, sums and results stay float32. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TILE_ATTENTION_H
#define PARTS_TILE_ATTENTION_H

#include "base/pool.h"
#include "parts/rows/view.h"
#include "parts/tiles/double_attention.h"
#include "parts/tiles/relative_terms.h"
#include "parts/tiles/softmax_rows.h"

enum { TILE_ATTENTION_BLOCK = 96 }; /* the most queries at a time */

/* What the memory depends on. */
struct tile_attention_sizes {
    size_t num_queries, num_keys, dim, value_dim;
    size_t block; /* queries at a time; they share what any of them sees */
    size_t span;  /* the most keys that a block sees, where that is known to be few; 0: any number. Too small
                     a one costs the threads of backward, and no more */
    size_t terms; /* relative_terms.count; 0: none. With span. */
    enum precision precision;
    size_t workers;
};

/* The keys first .. end - 1; none where first = end. */
struct sight {
    size_t first, end;
};

struct tile_attention {
    const struct kernels *kernels;
    struct pool *pool; /* NULL: none */
    struct tile_attention_sizes sizes;
    /* What query i sees. Neither number falls as i grows, and the queries that see a key follow one another.
       NULL: every query sees every key. */
    struct sight (*sight)(const void *argument, size_t query);
    const void *argument;
    const struct relative_terms *terms; /* NULL: none */
    /* Inputs may be so large that float32 overflows: forward and backward look, and where it could, they run
       in double (double_attention.h). Backward need not be told of what forward was told. */
    bool large;
    struct view query, key, value;
    struct softmax_rows rows; /* (num_queries), of those that see a key: forward writes, backward reads */
};

/* Bytes of the scratch of each direction. */
size_t tile_attention_forward_size(const struct tile_attention_sizes *sizes);
size_t tile_attention_backward_size(const struct tile_attention_sizes *sizes);

/* Writes out (num_queries, value_dim): 0 for a query that sees nothing. */
void tile_attention_forward(const struct tile_attention *attention, struct view out, void *scratch);

/* A query that sees nothing has no gradient. */
void tile_attention_backward(const struct tile_attention *attention, struct view out, struct view dout,
                             const struct attention_gradients *gradients, void *scratch);

#endif
