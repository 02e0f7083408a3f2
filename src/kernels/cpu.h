/* The features that the processor has and the operating system supports. Each architecture has one file that
   reads them, cpu_NAME.c, and names its bits in cpu_NAME.h; cpu_none.c is built where nobody wrote one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <stdint.h>

/* Bits of the architecture. A feature counts only if the operating system saves its registers when it
   switches threads: a system that does not would corrupt them silently. */
uint64_t cpu_features(void);

#endif
