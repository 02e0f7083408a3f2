/* Is this text UTF-8? SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_UTF8_H
#define IO_UTF8_H

#include "base/host.h"

/* The offset of the first byte that begins no whole character (overlong forms, surrogates and anything over
   U+10FFFF are none); `size` where all is well. */
size_t utf8_first_error(const char *bytes, size_t size);
/* BAD_FILE naming that byte. */
hashattn_status utf8_check(struct host *host, const char *bytes, size_t size);

#endif
