/* The table "ref": every slot as the plain loop that its contract in kernels.h describes, with no thought of
   speed. It is the truth that the other tables are tested against, and runs on any processor. A slot that is
   EXACT follows the order of its contract with fmaf; a TOLERANT one sums in double. The loops are in ref_*.h,
   by kinds as in simd_*.h. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tables.h"

#include <math.h>

#include "base/random.h"
#include "kernels/ref_hadamard.h"
#include "kernels/ref_hash.h"
#include "kernels/ref_pairs.h"
#include "kernels/ref_rows.h"
#include "kernels/ref_softmax.h"
#include "kernels/ref_table.h"
#include "kernels/ref_tile.h"

static void normals(float *out, uint64_t key, size_t n)
{
    random_normals(key, 0, out, n);
}

static void reflect(double *rows, size_t ld, size_t first, const double *axis, size_t dim)
{
    for (size_t l = first; l < ld; l++) {
        double dot = 0;
        for (size_t c = 0; c < dim; c++)
            dot = fma(axis[c], rows[c * ld + l], dot);
        for (size_t c = 0; c < dim; c++)
            rows[c * ld + l] = fma(-dot, axis[c], rows[c * ld + l]);
    }
}

static float fused_loop(size_t rounds)
{
    float sum = 0;
    for (size_t i = 0; i < rounds * FUSED_LOOP_OPERATIONS / 2; i++)
        sum = fmaf(sum, 0.5f, 1.0f);
    return sum;
}

static float bf16_loop(size_t rounds)
{
    float sum = 0;
    for (size_t i = 0; i < rounds * FUSED_LOOP_OPERATIONS / 4; i++)
        sum = fmaf(widened(0x3f00), 0.5f, fmaf(widened(0x3f00), 0.5f, sum));
    return sum;
}

const struct kernels kernels_ref = {
    .name = "ref",
    .bf16 = "by widening",
    .normals = normals,
    .reflect = reflect,
    .unit_rows = unit_rows,
    .unit_rows_backward = unit_rows_backward,
    .hash_codes = hash_codes,
    .hash_rows = hash_rows,
    .hash_planes = hash_planes,
    .hash_codes_dp = hash_codes_dp,
    .hadamard_codes = hadamard_codes,
    .table_add = table_add,
    .table_read = table_read,
    .table_scan = table_scan,
    .fixed_round = fixed_round,
    .fixed_add = fixed_add,
    .fixed_read = fixed_read,
    .fixed_finish = fixed_finish,
    .largest_size = largest_size,
    .meetings = meetings,
    .bucket_pairs = bucket_pairs,
    .bucket_carry = bucket_carry,
    .bucket_list_pairs = bucket_list_pairs,
    .tile_product = tile_product,
    .tile_transpose = tile_transpose,
    .bf16_product = bf16_product,
    .bf16_round = bf16_round,
    .bf16_widen = bf16_widen,
    .bf16_interleave = bf16_interleave,
    .softmax_step = softmax_step,
    .softmax_again = softmax_again,
    .row_largest = row_largest,
    .exp_rows = exp_rows,
    .softmax_gradient = softmax_gradient,
    .divergence = divergence,
    .below_largest = below_largest,
    .scale_rows = scale_rows,
    .scale_both = scale_both,
    .row_dots = row_dots,
    .collision_tile = collision_tile,
    .count_above = count_above,
    .list_above = list_above,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .gelu = gelu,
    .gelu_again = gelu_again,
    .multiply = multiply,
    .gate = gate_rows,
    .axpy = axpy,
    .add_bias = add_bias,
    .add_bias_backward = add_bias_backward,
    .convolve = convolve,
    .dropout = dropout,
    .all_finite = all_finite,
    .sum_squares = sum_squares,
    .adamw_step = adamw_step,
    .fused_loop = fused_loop,
    .bf16_loop = bf16_loop,
};
