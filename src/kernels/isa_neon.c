/* The table "neon": the bodies compiled for AArch64, whose baseline has Advanced SIMD and fused multiply-add.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/vec_neon.h"
#include "kernels/vec_neon_halves.h"

#include "kernels/vec_dot2_widened.h"

#include "kernels/simd_slots.h"

const struct isa isa_neon = {
    .needs = 0, /* every AArch64 has it */
    .kernels =
        {
            .name = "neon",
            .hash.pooled_codes = hash_pooled_codes,
            .hash.unit = hash_unit,
            .hash.unit_backward = hash_unit_backward,
            SIMD_SHORT_PRODUCTS,
            SIMD_SLOTS,
        },
};
