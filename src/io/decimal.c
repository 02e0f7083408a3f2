/* strtod on a copy that ends in NUL.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/decimal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 64 };

bool decimal_read(struct piece text, double *value)
{
    char copy[NUMBER_TEXT], *end;
    while (text.size > 0 && text.bytes[0] == ' ')
        text = (struct piece){text.bytes + 1, text.size - 1};
    while (text.size > 0 && text.bytes[text.size - 1] == ' ')
        text.size--;
    if (text.size == 0 || text.size >= sizeof copy)
        return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    if (strspn(copy, "+-.0123456789eE") < text.size)
        return false;
    *value = strtod(copy, &end);
    return *end == '\0' && isfinite(*value);
}
