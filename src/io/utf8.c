/* The only file that uses utf8proc. One pass, eight bytes at a time in runs of ASCII.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

size_t utf8_first_error(const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        while (size - at >= sizeof eight) {
            memcpy(&eight, bytes + at, sizeof eight);
            if ((eight & 0x8080808080808080u) != 0)
                break;
            at += sizeof eight;
        }
        if (at == size)
            break;
        size_t left = size - at < 4 ? size - at : 4;
        utf8proc_int32_t point;
        utf8proc_ssize_t used =
            utf8proc_iterate((const utf8proc_uint8_t *)bytes + at, (utf8proc_ssize_t)left, &point);
        if (used <= 0)
            return at;
        at += (size_t)used;
    }
    return size;
}

hashattn_status utf8_check(struct host *host, const char *bytes, size_t size)
{
    size_t at = utf8_first_error(bytes, size);
    FAIL_IF(at < size, host, HASHATTN_BAD_FILE, "not UTF-8 at byte %zu of %zu (0x%02x)", at, size,
            (unsigned)(unsigned char)bytes[at]);
    return HASHATTN_OK;
}

static bool has(const char *bytes, size_t size, size_t at, const char *what)
{
    return size >= at + strlen(what) && memcmp(bytes + at, what, strlen(what)) == 0;
}

/* The format of a compressed file; NULL: it is none. The fourth byte of bzip2 is the level. */
static const char *packed_as(const char *bytes, size_t size)
{
    static const struct {
        const char *start, *format;
    } formats[] = {
        {"\x1f\x8b", "gzip"}, {"PK\x03\x04", "zip"}, {"\xfd\x37zXZ", "xz"}, {"\x28\xb5\x2f\xfd", "zstd"}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (has(bytes, size, 0, formats[i].start))
            return formats[i].format;
    return has(bytes, size, 0, "BZh") && has(bytes, size, 4, "1AY&SY") ? "bzip2" : NULL;
}

hashattn_status utf8_check_start(struct host *host, const char *bytes, size_t size)
{
    const char *packed = packed_as(bytes, size);
    FAIL_IF(has(bytes, size, 0, "\xff\xfe") || has(bytes, size, 0, "\xfe\xff"), host, HASHATTN_BAD_FILE,
            "the text is UTF-16, UTF-8 is needed (iconv -f UTF-16 -t UTF-8 converts it)");
    FAIL_IF(packed != NULL, host, HASHATTN_BAD_FILE,
            "the file is compressed (%s), a text is needed: unpack it first", packed);
    return HASHATTN_OK;
}

void utf8_library(char *text, size_t size)
{
    snprintf(text, size, "utf8proc %s", utf8proc_version());
}

size_t utf8_decompose(int32_t point, int32_t *parts, size_t most)
{
    utf8proc_ssize_t count = utf8proc_decompose_char(point, parts, (utf8proc_ssize_t)most,
                                                     UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, NULL);
    if (count >= 1 && (size_t)count <= most)
        return (size_t)count;
    parts[0] = point;
    return 1;
}

int utf8_combining_class(int32_t point)
{
    return utf8proc_get_property(point)->combining_class;
}

int32_t utf8_lower(int32_t point)
{
    return utf8proc_tolower(point);
}
