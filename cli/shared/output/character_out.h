/* Characters of text that may not be UTF-8, such as the names of files, for outputs that must be.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHARACTER_OUT_H
#define CLI_CHARACTER_OUT_H

#include <stddef.h>

#define CHARACTER_REPLACED "\xef\xbf\xbd" /* U+FFFD, for each byte that begins no character */

/* Bytes of the character that begins the text of `size` > 0 bytes; 0: it is not UTF-8 (RFC 3629). */
size_t character_size(const char *text, size_t size);

#endif
