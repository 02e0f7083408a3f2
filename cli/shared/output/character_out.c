/* The first byte says how long a character is; its code then tells long forms and surrogates. Reads at most
   four bytes (RFC 3629, section 3).
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/character_out.h"

#include <stdint.h>

size_t character_size(const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t more = at[0] < 0x80 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    if ((at[0] >= 0x80 && at[0] < 0xc2) || at[0] >= 0xf5 || more >= size)
        return 0;
    uint32_t code = more == 0 ? at[0] : at[0] & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    if ((more == 2 && code < 0x800) || (more == 3 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0xd800 && code < 0xe000))
        return 0;
    return more + 1;
}
