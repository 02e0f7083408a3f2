/* The table "avx2": the bodies compiled for AVX2 and FMA. The flags of this file alone are in CMakeLists.txt;
   the vector words stop the build without them. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tables.h"
#include "kernels/vec_avx2.h"
#include "kernels/vec_dot2_widened.h"

#include "kernels/simd_slots.h"

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .hash.unit = hash_unit,
    .hash.unit_backward = hash_unit_backward,
    SIMD_SLOTS,
};
