/* Softmax attention of one head in tiles, where each query sees a range of keys: out_i = sum_j p_ij v_j over
   keys first_i .. end_i - 1, p_ij = exp(s_ij - max_i) / sum_i, s_ij = q_i k_j / sqrt(d) (Vaswani et al.
   2017; Dao et al. 2022). No n x n array exists: the running softmax carries a maximum and a sum per query
   (Milakov and Gimelshein 2018). Cost: 2 (d + d_v) operations and one exponential per seen pair, 2.5 times
   that backward, which recomputes the probabilities from scores. Tiles that no query of a block sees are
   skipped; unseen scores in other tiles are -inf.
   Order of loops: operands of a product should be adjacent and in L1 or L2. So a group of rows is copied
   from the caller's strided views once, and the other side passes in tiles: forward holds a group of queries
   and transposes each tile of keys once for the group; backward holds a group of keys. Scratch therefore
   does not grow with n (except one float per query).
   Threads: groups of queries forward. Backward, with long ranges: a grid of groups of keys and blocks of
   queries, where dQ is summed along a column and dK, dV along a row. With short ranges (`span`): groups so
   long that alternate groups share no query; first the even groups in parallel, then the odd ones.
   Scores may have terms for the distance from query to key (relative_terms.h). Each group of keys sums their
   gradients separately, so scratch grows by at most a row of the head per key. Or they have a bias per pair
   of positions, which the caller holds. With precision bf16 the operands of every product are rounded,
   probabilities too; scores, maxima, sums and results stay float32.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_TILE_ATTENTION_H
#define PARTS_TILE_ATTENTION_H

#include "parts/problem/problem.h"
#include "parts/tiles/relative_terms.h"
#include "parts/tiles/softmax_rows.h"

enum { TILE_ATTENTION_BLOCK = 96 }; /* maximum queries at a time */

/* Queries at a time if those of a block of s see the same keys: whole blocks, or an equal part of one, so
   that few of the keys they are multiplied with are unseen. */
static inline size_t tile_attention_block(size_t s)
{
    size_t most = TILE_ATTENTION_BLOCK, parts = (s + most - 1) / most;
    return s > most ? (s + parts - 1) / parts : most / s * s;
}

/* The keys first .. end - 1; none if first = end. */
struct sight {
    size_t first, end;
};

/* What tiles need beyond the problem. If problem.large, forward and backward each check whether float32 could
   overflow, and run in double if it could (double_attention.h); `large` may differ between them. */
struct tile_attention {
    /* The memory depends on the shape and on these three. */
    size_t block; /* queries at a time; they share the range that any of them sees */
    size_t span; /* maximum keys that a block sees, if that is known to be few; 0: any number. A value that is
                    too small only costs backward its threads */
    size_t num_terms; /* relative_terms.count; 0: none. With span. */

    /* The keys that query i sees. Neither end falls as i grows. NULL: every query sees every key. */
    struct sight (*sight)(const void *argument, size_t query);
    const void *argument;
    const struct relative_terms *terms; /* NULL: none */
    /* (n_q, n_k), rows ld_bias floats apart, added to s_ij; NULL: none. Not with problem.large. */
    const float *bias;
    float *dbias; /* backward: +=, laid out as bias; NULL: not wanted */
    size_t ld_bias;
    /* (n_q): forward writes, backward reads. A query that sees nothing has SOFTMAX_ROWS_LEAST and 0. */
    struct softmax_rows rows;
};

/* Bytes of the scratch of each direction, and of either. */
size_t tile_attention_forward_size(const struct problem_shape *shape, const struct tile_attention *attention);
size_t tile_attention_backward_size(const struct problem_shape *shape,
                                    const struct tile_attention *attention);

static inline size_t tile_attention_size(const struct problem_shape *shape,
                                         const struct tile_attention *attention)
{
    return size_max(tile_attention_forward_size(shape, attention),
                    tile_attention_backward_size(shape, attention));
}

/* Writes out (n_q, d_v): 0 for a query that sees nothing. */
void tile_attention_forward(const struct problem *problem, const struct tile_attention *attention,
                            struct view out, void *scratch);

/* Adds to the gradients of query, key and value, and to those of the terms and the bias. A query that sees
   nothing has no gradient. */
void tile_attention_backward(const struct problem *problem, const struct tile_attention *attention,
                             struct view out, struct view dout, const struct problem_gradients *gradients,
                             void *scratch);

#endif
