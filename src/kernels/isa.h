/* An instruction set: its table of slots, and what a processor needs to run it. Each is a file of its own,
   isa_NAME.c, or ref.c for the plain loops. cmake/isas.cmake lists them. SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include <stdint.h>

#include "kernels/kernels.h"

struct isa {
    uint64_t needs; /* bits of cpu_features, all of them; 0: runs everywhere */
    struct kernels kernels;
};

extern const struct isa isa_ref;

#endif
