/* Stage peak: loops that show what a table's instructions can reach. kernels.h has the rules of all
   contracts. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SLOTS_PEAK_H
#define KERNELS_SLOTS_PEAK_H

#include <stddef.h>

enum { FUSED_LOOP_OPERATIONS = 3840 };

struct peak_slots {
    /* rounds * FUSED_LOOP_OPERATIONS floating-point operations (two per fused multiply-add) that touch
       registers alone: what this table's instructions can reach at best. Returns some number, so that the
       work is not dropped. */
    float (*fused_loop)(size_t rounds);

    /* The same for the multiply-adds of bf16.product, FUSED_LOOP_OPERATIONS a round too. */
    float (*bf16_loop)(size_t rounds);
};

#endif
