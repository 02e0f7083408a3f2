/* All bodies, and the table rows that all vector tables share. Each isa_*.c includes it after its vector
   words. Each simd_*.h ends with its rows. If an instruction set has another body for a slot, the row is in
   isa_*.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_SLOTS_H
#define KERNELS_SIMD_SLOTS_H

#include "kernels/simd_balance.h"
#include "kernels/simd_bf16.h"
#include "kernels/simd_bucket_sums.h"
#include "kernels/simd_collision.h"
#include "kernels/simd_decode.h"
#include "kernels/simd_dropout.h"
#include "kernels/simd_equal_codes.h"
#include "kernels/simd_features.h"
#include "kernels/simd_fixed.h"
#include "kernels/simd_frame.h"
#include "kernels/simd_hadamard.h"
#include "kernels/simd_hash.h"
#include "kernels/simd_layers.h"
#include "kernels/simd_pack.h"
#include "kernels/simd_pairs.h"
#include "kernels/simd_peak.h"
#include "kernels/simd_pool.h"
#include "kernels/simd_random.h"
#include "kernels/simd_rows.h"
#include "kernels/simd_scan.h"
#include "kernels/simd_select.h"
#include "kernels/simd_softmax.h"
#include "kernels/simd_tables.h"
#include "kernels/simd_tiles.h"

#define SIMD_SLOTS                                                                                           \
    SIMD_BALANCE, SIMD_BF16, SIMD_BUCKET_SUMS, SIMD_COLLISION, SIMD_DECODE, SIMD_DROPOUT, SIMD_FEATURES,     \
        SIMD_FIXED, SIMD_FRAME, SIMD_HADAMARD, SIMD_HASH, SIMD_LAYERS, SIMD_EQUAL_CODES, SIMD_PACK,          \
        SIMD_PAIRS, SIMD_PEAK, SIMD_RANDOM, SIMD_ROWS, SIMD_SCAN, SIMD_SELECT, SIMD_SOFTMAX, SIMD_TABLES,    \
        SIMD_TILES

/* The products of 16-bit numbers and bytes, of every table without tiles. */
#define SIMD_SHORT_PRODUCTS                                                                                  \
    .hash.codes_dp = hash_codes_dp, .hash.codes_dense = hash_codes_dense, .bf16.product = bf16_product,      \
    .peak.bf16_loop = peak_bf16_loop

#endif
