/* The table "avx512": the bodies compiled for AVX-512 F, BW, DQ and VL. cmake/isas.cmake has the compiler
   flags; the vector words stop the build without them.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu_x86.h"
#include "kernels/isa.h"
#include "kernels/vec_avx512.h"
#include "kernels/vec_dot2_widened.h"

#include "kernels/simd_permute_avx512.h"
#include "kernels/simd_pool_avx512.h"
#include "kernels/simd_slots.h"

const struct isa isa_avx512 = {
    .needs = X86_AVX512,
    .kernels =
        {
            .name = "avx512",
            .hash.pooled_codes = hash_pooled_codes_avx512,
            .hash.unit = hash_unit_avx512,
            .hash.unit_backward = hash_unit_backward_avx512,
            SIMD_SHORT_PRODUCTS,
            SIMD_SLOTS,
        },
};
