/* The table "avx2": the bodies compiled for AVX2 and FMA. cmake/isas.cmake has the compiler flags; the vector
   words stop the build without them.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu_x86.h"
#include "kernels/isa.h"
#include "kernels/vec_avx2.h"
#include "kernels/vec_dot2_widened.h"

#include "kernels/simd_slots.h"

const struct isa isa_avx2 = {
    .needs = X86_FMA | X86_AVX2,
    .kernels =
        {
            .name = "avx2",
            .hash.pooled_codes = hash_pooled_codes,
            .hash.unit = hash_unit,
            .hash.unit_backward = hash_unit_backward,
            SIMD_SHORT_PRODUCTS,
            SIMD_SLOTS,
        },
};
