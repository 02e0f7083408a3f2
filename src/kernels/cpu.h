/* Features that the processor has and the operating system supports. Each architecture has one file that
   reads them, cpu_NAME.c, and names their bits in cpu_NAME.h. cpu_none.c is built for all other
   architectures.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <stdint.h>

/* Bits are specific to the architecture. A feature is reported only if the operating system saves its
   registers on a thread switch; otherwise they would be corrupted silently. */
uint64_t cpu_features(void);

#endif
