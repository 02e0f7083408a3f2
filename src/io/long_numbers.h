/* Whole numbers of JSON beyond 64 bits, for a parser without them. Each is replaced by a string of its digits
   that ends with an escaped NUL, which no other string has, because json_parse refuses NUL in texts; written
   text gets its numbers back. So a number that is not read does no harm, and a copy of the values keeps it.
   Cost: bytes of the text.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_LONG_NUMBERS_H
#define IO_LONG_NUMBERS_H

#include "base/host.h"

/* Copies a text with its whole numbers of at least 19 digits as such strings; fewer digits fit into 64 bits.
   The caller frees *quoted with memory_free. */
hashattn_status long_numbers_quote(struct host *host, const char *text, size_t size, char **quoted,
                                   size_t *quoted_size);
/* The offset in the text of a byte of its copy. */
size_t long_numbers_origin(const char *text, size_t size, size_t at);
/* Writes such strings of a text as numbers again, in place; returns the new size. */
size_t long_numbers_unquote(char *text, size_t size);

#endif
