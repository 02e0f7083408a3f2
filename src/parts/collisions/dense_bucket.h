/* Gradients of the pairs of a dense bucket, if every pair has the same weight w (gradient `lower`): with a
   queries, b keys and G = dX, the sums over pairs are matrix products, and
     dq_i += w (G_i (V^T K) + bias_i sum_j k_j),  dk_j += w (V_j (G^T Q) + sum_i bias_i q_i)
   cost 4 (a + b) d_v d operations; pair by pair they cost a b (2 d_v + 4 d). Using the cheaper way keeps
   backward linear in n, however dense the buckets are.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_DENSE_BUCKET_H
#define PARTS_DENSE_BUCKET_H

#include "base/memory.h"
#include "kernels/kernels.h"

/* Work space for widths dim and value_dim. */
struct dense_scratch {
    size_t ld, ld_value;       /* of unit rows; of value rows, which have an extra column for the bias */
    float *unit, *value, *sum; /* (DENSE_ROWS, ld), (DENSE_ROWS, ld_value), (DENSE_ROWS, ld) */
    float *from_keys, *from_queries; /* (value_dim + 1, ld): V^T K and w G^T Q */
};

enum { DENSE_ROWS = 128 };

void dense_scratch_init(struct dense_scratch *dense, struct arena *arena, size_t dim, size_t value_dim);

/* true if dense_pairs is cheaper than slot pairs.bucket. */
bool dense_is_cheaper(const struct bucket_pairs *bucket);

/* A bucket with at most this number of queries, or of keys, is never cheaper by products. */
size_t dense_never(size_t dim, size_t value_dim);

/* One side of a bucket: its rows, and [value, bias] of each. */
struct dense_side {
    const uint32_t *rows; /* (count) */
    size_t count, ld, ld_value;
    const float *unit, *value;
    const float *bias; /* extra column beside the values, if it is used; NULL: 1 */
    float scale;       /* of value and bias */
    float *gradient;
};
/* The halves of dense_pairs, for a side of unit rows (dim) and values (value_dim), with the bias if width is
   value_dim + 1. sums (width, dense->ld) = [value, bias]^T unit; and gradient += [value, bias] others, with
   `others` the sums of the other side; dense_sum does so too unless it is NULL. */
void dense_sum(const struct kernels *kernels, const struct dense_scratch *dense,
               const struct dense_side *side, float *sums, const float *others, size_t dim, size_t value_dim,
               size_t width);
void dense_use(const struct kernels *kernels, const struct dense_scratch *dense,
               const struct dense_side *side, const float *others, size_t dim, size_t value_dim,
               size_t width);

/* As slot pairs.bucket, for constant weight and without times. TOLERANT. */
void dense_pairs(const struct kernels *kernels, const struct dense_scratch *dense,
                 const struct bucket_pairs *bucket);

#endif
