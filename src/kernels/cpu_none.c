/* For an architecture without instruction sets in this folder, or whose sets run on every processor.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu.h"

uint64_t cpu_features(void)
{
    return 0;
}
