/* The table "avx512bf16": the bodies compiled for AVX-512 F, BW, DQ and VL, plus the instructions that
   multiply and add pairs of bfloat16 (AVX512-BF16, since Zen 4 and Cooper Lake) and of integers (VNNI, which
   all of those processors have). cmake/isas.cmake has the compiler flags; the vector words stop the build
   without them.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu_x86.h"
#include "kernels/isa.h"
#include "kernels/vec_avx512.h"
#include "kernels/vec_dot2_avx512bf16.h"

#include "kernels/simd_permute_avx512.h"
#include "kernels/simd_pool_avx512.h"
#include "kernels/simd_slots.h"

const struct isa isa_avx512bf16 = {
    .needs = X86_AVX512 | X86_AVX512VNNI | X86_AVX512BF16,
    .kernels =
        {
            .name = "avx512bf16",
            .hash.pooled_codes = hash_pooled_codes_avx512,
            .hash.unit = hash_unit_avx512,
            .hash.unit_backward = hash_unit_backward_avx512,
            SIMD_SHORT_PRODUCTS,
            SIMD_SLOTS,
        },
};
