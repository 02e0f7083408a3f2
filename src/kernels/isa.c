/* What this processor runs: the plain loops need nothing. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

enum isa isa_widest(void)
{
    return ISA_REF;
}
