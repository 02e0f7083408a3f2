/* Gradients of the pairs of a crowded bucket, if every pair has the same weight w (gradient `lower`): with a
   queries, b keys and G = dX, the sums over pairs are matrix products, and
     dq_i += w (G_i (V^T K) + bias_i sum_j k_j),  dk_j += w (V_j (G^T Q) + sum_i bias_i q_i)
   cost 4 (a + b) d_v d operations; pair by pair they cost a b (2 d_v + 4 d). Using the cheaper way keeps
   backward linear in n, however crowded the codes are.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_CROWD_H
#define PARTS_CROWD_H

#include "base/memory.h"
#include "kernels/kernels.h"

/* Work space for widths dim and value_dim. */
struct crowd {
    size_t ld, ld_value;       /* of unit rows; of value rows, which have an extra column for the bias */
    float *unit, *value, *sum; /* (CROWD_ROWS, ld), (CROWD_ROWS, ld_value), (CROWD_ROWS, ld) */
    float *from_keys, *from_queries; /* (value_dim + 1, ld): V^T K and w G^T Q */
};

enum { CROWD_ROWS = 128 };

void crowd_lay_out(struct crowd *crowd, struct arena *arena, size_t dim, size_t value_dim);

/* true if crowd_pairs is cheaper than slot pairs.bucket. */
bool crowd_is_cheaper(const struct bucket_pairs *bucket);

/* A bucket with at most this number of queries, or of keys, is never cheaper as a crowd. */
size_t crowd_never(size_t dim, size_t value_dim);

/* One side of a bucket: its rows, and [value, bias] of each. */
struct crowd_side {
    const uint32_t *rows; /* (count) */
    size_t count, ld, ld_value;
    const float *unit, *value;
    const float *bias; /* extra column beside the values, if it is used; NULL: 1 */
    float scale;       /* of value and bias */
    float *gradient;
};
/* The halves of crowd_pairs, for a side of unit rows (dim) and values (value_dim), with the bias if width is
   value_dim + 1. sums (width, crowd->ld) = [value, bias]^T unit; and gradient += [value, bias] others, with
   `others` the sums of the other side; crowd_sum does so too unless it is NULL. */
void crowd_sum(const struct kernels *kernels, const struct crowd *crowd, const struct crowd_side *side,
               float *sums, const float *others, size_t dim, size_t value_dim, size_t width);
void crowd_use(const struct kernels *kernels, const struct crowd *crowd, const struct crowd_side *side,
               const float *others, size_t dim, size_t value_dim, size_t width);

/* As slot pairs.bucket, for constant weight and without times. TOLERANT. */
void crowd_pairs(const struct kernels *kernels, const struct crowd *crowd, const struct bucket_pairs *bucket);

#endif
