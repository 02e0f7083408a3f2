/* The stand-in for an architecture without instruction sets in this folder: only the plain loops run.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu.h"

uint64_t cpu_features(void)
{
    return 0;
}
