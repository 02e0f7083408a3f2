/* What this processor and its operating system can run. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include <stdbool.h>

/* Narrowest first; each holds all of the one before it. */
enum isa { ISA_REF, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_COUNT };

/* The widest that runs here: the processor has the instructions, and the operating system saves the registers
   when it switches threads (a system that does not would corrupt them silently). */
enum isa isa_widest(void);

#endif
