/* The table "amx": that of avx512bf16, with tiles for the products of bytes and of bfloat16 (AMX, since
   Sapphire Rapids). Linux gives the state of tiles only on request. cmake/isas.cmake has the compiler flags;
   the words stop the build without them.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"
#include "kernels/cpu_x86.h"
#include "kernels/isa.h"
#include "kernels/vec_avx512.h"
#include "kernels/vec_dot2_avx512bf16.h"
#include "kernels/vec_tiles_amx.h"

#include "kernels/simd_bf16_amx.h"
#include "kernels/simd_hash_amx.h"
#include "kernels/simd_permute_avx512.h"
#include "kernels/simd_pool_avx512.h"
#include "kernels/simd_slots.h"

enum { TILE_CONTENTS = 18 }; /* the bit of XCR0 */

static bool tiles_granted(void)
{
    return machine_grants_state(TILE_CONTENTS);
}

const struct isa isa_amx = {
    .needs = X86_AVX512 | X86_AVX512VNNI | X86_AVX512BF16 | X86_AVX512VBMI2 | X86_AMX_TILE | X86_AMX_INT8 |
             X86_AMX_BF16,
    .granted = tiles_granted,
    .kernels =
        {
            .name = "amx",
            .hash.pooled_codes = hash_pooled_codes_avx512,
            .hash.unit = hash_unit_avx512,
            .hash.unit_backward = hash_unit_backward_avx512,
            .hash.codes_dp = hash_codes_dp_amx,
            .hash.codes_dense = hash_codes_dense_amx,
            .bf16.product = bf16_product_amx,
            .peak.bf16_loop = peak_bf16_loop_amx,
            SIMD_SLOTS,
        },
};
