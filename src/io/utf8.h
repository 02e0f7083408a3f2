/* Checks that text is UTF-8. SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_UTF8_H
#define IO_UTF8_H

#include "base/host.h"

/* The offset of the first byte that does not begin a valid character; `size` if there is none. Overlong
   forms, surrogates and anything above U+10FFFF are invalid. */
size_t utf8_first_error(const char *bytes, size_t size);
/* BAD_FILE, with that byte, if the text is not UTF-8. */
hashattn_status utf8_check(struct host *host, const char *bytes, size_t size);
/* Writes the name of the library and its version. */
void utf8_library(char *text, size_t size);

#endif
