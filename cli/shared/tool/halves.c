/* Rounded copies.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/halves.h"

#include <stdlib.h>
#include <string.h>

bool halves_wanted(const hashattn_context *context)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    return strcmp(is.precision, "bf16") == 0;
}

uint16_t *halves_new(const hashattn_context *context, const float *from, size_t count)
{
    if (count > SIZE_MAX / 8)
        return NULL;
    uint16_t *halves = aligned_alloc(64, count * sizeof *halves / 64 * 64 + 64);
    if (halves != NULL && from != NULL)
        hashattn_bf16_round(context, from, halves, count);
    return halves;
}
