/* Every body, and the slots that all vector tables fill from them: included by the isa_*.c, each with the
   words of its own. A slot that one instruction set does otherwise is a row there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_SLOTS_H
#define KERNELS_SIMD_SLOTS_H

#include "kernels/simd_bf16.h"
#include "kernels/simd_carry.h"
#include "kernels/simd_collision.h"
#include "kernels/simd_dropout.h"
#include "kernels/simd_fixed.h"
#include "kernels/simd_frame.h"
#include "kernels/simd_hadamard.h"
#include "kernels/simd_hash.h"
#include "kernels/simd_meetings.h"
#include "kernels/simd_pack.h"
#include "kernels/simd_pairs.h"
#include "kernels/simd_random.h"
#include "kernels/simd_rows.h"
#include "kernels/simd_scan.h"
#include "kernels/simd_select.h"
#include "kernels/simd_softmax.h"
#include "kernels/simd_table.h"
#include "kernels/simd_tile.h"

/* clang-format off */
#define SIMD_SLOTS \
    .normals = normals, \
    .reflect = reflect, \
    .hash_codes = hash_codes, \
    .hash_rows = hash_rows, \
    .hash_planes = hash_planes, \
    .hash_codes_dp = hash_codes_dp, \
    .hadamard_codes = hadamard_codes, \
    .table_add = table_add, \
    .table_read = table_read, \
    .table_scan = table_scan, \
    .fixed_round = fixed_round, \
    .fixed_add = fixed_add, \
    .fixed_read = fixed_read, \
    .fixed_finish = fixed_finish, \
    .largest_size = largest_size, \
    .meetings = meetings, \
    .bucket_pairs = bucket_pairs, \
    .bucket_carry = bucket_carry, \
    .bucket_list_pairs = bucket_list_pairs, \
    .tile_product = tile_product, \
    .tile_transpose = tile_transpose, \
    .bf16_product = bf16_product, \
    .bf16_round = bf16_round, \
    .bf16_widen = bf16_widen, \
    .bf16_interleave = bf16_interleave, \
    .softmax_step = softmax_step, \
    .softmax_again = softmax_again, \
    .row_largest = row_largest, \
    .exp_rows = exp_rows, \
    .softmax_gradient = softmax_gradient, \
    .divergence = divergence, \
    .below_largest = below_largest, \
    .scale_rows = scale_rows, \
    .scale_both = scale_both, \
    .row_dots = row_dots, \
    .collision_tile = collision_tile, \
    .count_above = count_above, \
    .list_above = list_above, \
    .layer_norm = layer_norm, \
    .layer_norm_backward = layer_norm_backward, \
    .gelu = gelu, \
    .gelu_again = gelu_again, \
    .multiply = multiply, \
    .gate = gate_rows, \
    .axpy = axpy, \
    .add_bias = add_bias, \
    .add_bias_backward = add_bias_backward, \
    .convolve = convolve, \
    .dropout = dropout, \
    .all_finite = all_finite, \
    .sum_squares = sum_squares, \
    .adamw_step = adamw_step, \
    .fused_loop = fused_loop, \
    .bf16_loop = bf16_loop
/* clang-format on */

#endif
