/* The table "avx512": the bodies compiled for AVX-512 F, BW, DQ and VL. The flags of this file alone are in
   CMakeLists.txt; the vector words stop the build without them. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tables.h"
#include "kernels/vec_avx512.h"
#include "kernels/vec_dot2_widened.h"

#include "kernels/simd_bf16.h"
#include "kernels/simd_collision.h"
#include "kernels/simd_dropout.h"
#include "kernels/simd_hash.h"
#include "kernels/simd_pairs.h"
#include "kernels/simd_rows.h"
#include "kernels/simd_softmax.h"
#include "kernels/simd_table.h"
#include "kernels/simd_tile.h"
#include "kernels/simd_turn_avx512.h"

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .bf16 = "by widening",
    .unit_rows = unit_rows_avx512,
    .unit_rows_backward = unit_rows_backward_avx512,
    .hash_codes = hash_codes,
    .table_add = table_add,
    .table_read = table_read,
    .bucket_pairs = bucket_pairs,
    .tile_product = tile_product,
    .tile_transpose = tile_transpose,
    .bf16_product = bf16_product,
    .bf16_round = bf16_round,
    .bf16_widen = bf16_widen,
    .bf16_interleave = bf16_interleave,
    .softmax_step = softmax_step,
    .softmax_again = softmax_again,
    .softmax_gradient = softmax_gradient,
    .scale_rows = scale_rows,
    .row_dots = row_dots,
    .collision_tile = collision_tile,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    .axpy = axpy,
    .add_bias = add_bias,
    .add_bias_backward = add_bias_backward,
    .convolve = convolve,
    .dropout = dropout,
    .sum_squares = sum_squares,
    .adamw_step = adamw_step,
    .fused_loop = fused_loop,
    .bf16_loop = bf16_loop,
};
