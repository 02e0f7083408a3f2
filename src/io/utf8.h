/* Checks that text is UTF-8, and properties of characters.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_UTF8_H
#define IO_UTF8_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"

/* The offset of the first byte that does not begin a valid character; `size` if there is none. Overlong
   forms, surrogates and anything above U+10FFFF are invalid. */
size_t utf8_first_error(const char *bytes, size_t size);
/* BAD_FILE, with that byte, if the text is not UTF-8. */
hashattn_status utf8_check(struct host *host, const char *bytes, size_t size);
/* The first bytes of a file that should be text. BAD_FILE: they are those of gzip, zip, xz, zstd or bzip2, or
   the mark of UTF-16, as Excel saves "Unicode text". The faults in the lines of such a file mislead. */
hashattn_status utf8_check_start(struct host *host, const char *bytes, size_t size);
/* Writes the name of the library and its version. */
void utf8_library(char *text, size_t size);

/* Properties of a character, in the Unicode version of the installed library. */
size_t utf8_decompose(int32_t point, int32_t *parts, size_t most); /* canonical (NFD); number of parts */
int utf8_combining_class(int32_t point);
int32_t utf8_lower(int32_t point); /* of one character */

#endif
