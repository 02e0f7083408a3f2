/* One number after the other.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/shape_text.h"

#include <stdio.h>

void shape_text(int rank, const size_t *shape, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", i > 0 ? ", " : "", shape[i]);
    if (used < size)
        snprintf(text + used, size - used, rank == 1 ? ",)" : ")");
}
