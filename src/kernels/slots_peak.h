/* Stage peak: loops that measure the highest rate of a table's instructions. kernels.h has the rules of all
   contracts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_PEAK_H
#define KERNELS_SLOTS_PEAK_H

#include <stddef.h>

enum { FUSED_LOOP_OPERATIONS = 49152 }; /* three products of tiles of bfloat16, or of any vectors */

struct peak_slots {
    /* Runs rounds * FUSED_LOOP_OPERATIONS floating-point operations (two per fused multiply-add) in
       registers: the highest rate that this table's instructions reach. Returns a number that depends on all
       of them, so that the compiler keeps the work. */
    float (*fused_loop)(size_t rounds);

    /* The same for the multiply-adds of bf16.product, also FUSED_LOOP_OPERATIONS per round. */
    float (*bf16_loop)(size_t rounds);
};

#endif
