/* An instruction set: its table of slots and the features it needs. Each has its own file, isa_NAME.c; the
   plain loops are in ref.c. cmake/isas.cmake lists them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct isa {
    uint64_t needs;        /* bits of cpu_features, all required; 0: runs everywhere */
    bool (*granted)(void); /* asks the system for what it gives only on request; NULL: for nothing */
    struct kernels kernels;
};

extern const struct isa isa_ref;

#endif
