/* A byte becomes at most three.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/encoding.h"

#include <stdint.h>

#include "base/memory.h"

const char *const encoding_names[] = {"utf-8", "latin-1", "windows-1252", NULL};

/* The characters of the bytes 0x80 to 0x9f. */
static const uint16_t windows1252[32] = {
    0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008d, 0x017d, 0x008f, 0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178,
};

/* Writes one character; returns its bytes. */
static size_t put(char *to, unsigned c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | c >> 12);
    to[1] = (char)(0x80 | (c >> 6 & 0x3f));
    to[2] = (char)(0x80 | (c & 0x3f));
    return 3;
}

hashattn_status encoded_utf8(struct host *host, enum text_encoding encoding, struct piece text,
                             struct encoded *encoded, struct piece *utf8)
{
    *utf8 = text;
    if (encoding == ENCODING_UTF8)
        return HASHATTN_OK;
    TRY(memory_grow(host, &encoded->bytes, &encoded->capacity, 0, size_product(3, text.size), 1,
                    "a text as UTF-8"));
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned byte = (unsigned char)text.bytes[i];
        bool other = encoding == ENCODING_WINDOWS1252 && byte >= 0x80 && byte < 0xa0;
        size += put(encoded->bytes + size, other ? windows1252[byte - 0x80] : byte);
    }
    *utf8 = (struct piece){encoded->bytes, size};
    return HASHATTN_OK;
}

void encoded_free(struct host *host, struct encoded *encoded)
{
    memory_free(host, encoded->bytes);
    *encoded = (struct encoded){NULL, 0};
}
