/* The encodings of users' texts, and their conversion to UTF-8. In ISO 8859-1 (Latin-1) a byte is the
   character of its number. Windows-1252 has other characters in 0x80 to 0x9f; its five unassigned bytes are
   the control characters of their number, as in the WHATWG encoding standard. Cost: one pass.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_ENCODING_H
#define IO_ENCODING_H

#include "io/lines.h"

enum text_encoding { ENCODING_UTF8, ENCODING_LATIN1, ENCODING_WINDOWS1252 };
extern const char *const encoding_names[]; /* "utf-8", "latin-1", "windows-1252", NULL */

/* A converted text. Starts as zeros. */
struct encoded {
    char *bytes;
    size_t capacity;
};
/* *utf8: the text as UTF-8, valid until the next call; UTF-8 is not copied and not checked. */
hashattn_status encoded_utf8(struct host *host, enum text_encoding encoding, struct piece text,
                             struct encoded *encoded, struct piece *utf8);
void encoded_free(struct host *host, struct encoded *encoded);

#endif
