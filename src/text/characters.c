/* Flags by binary search in runs of equal flags; ASCII by a table. io/utf8.h knows decompositions, combining
   classes and lower case, which do not change once a character is assigned, in the version of the system. The
   tables here are for characters that the reference library's data lack (decompositions after Unicode 9) and
   those that the system's may lack (lower case of Unicode 16 and 17).
   SPDX-License-Identifier: Apache-2.0 */
#include "text/characters.h"

#include "io/utf8.h"
#include "text/unicode_classes.h"

size_t character_read_long(const char *at, const char *end, int32_t *point)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    *point = CHARACTER_NONE;
    size_t size = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (size == 0 || left < size)
        return 1;
    int32_t value = p[0] & (0x7f >> size);
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (p[i] & 0x3f);
    }
    bool is_long = size == 3 ? value < 0x800 : size == 4 && value < 0x10000;
    if (is_long || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 1;
    *point = value;
    return size;
}

/* Bytes of the character that this byte begins; 1 if it begins none. */
static size_t promised(unsigned char first)
{
    if (first < 0xc2 || first > 0xf4)
        return 1;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t character_broken(const char *at, const char *end)
{
    const unsigned char *bytes = (const unsigned char *)at;
    size_t left = (size_t)(end - at), size = promised(bytes[0]), i = 1;
    if (size == 1 || left < 2)
        return 1;
    /* The second byte of these excludes overlong forms, surrogates and more than U+10FFFF. */
    unsigned char low = bytes[0] == 0xe0 ? 0xa0 : bytes[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = bytes[0] == 0xed ? 0x9f : bytes[0] == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high)
        return 1;
    for (i = 2; i < size && i < left && (bytes[i] & 0xc0) == 0x80; i++) {
    }
    return i;
}

bool character_is_cut(const char *at, const char *end)
{
    size_t left = (size_t)(end - at);
    return left < promised((unsigned char)*at) && character_broken(at, end) == left;
}

size_t character_write(int32_t point, char bytes[4])
{
    uint32_t c = (uint32_t)point;
    if (c < 0x80) {
        bytes[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        bytes[i] = (char)(0x80 | (c & 0x3f));
    bytes[0] = (char)(0xf00u >> size | c);
    return size;
}

unsigned character_flags_long(int32_t point)
{
    if (point < 128)
        return point < 0 ? 0 : character_ascii[point];
    uint32_t key = (uint32_t)point << 8 | 0xff;
    size_t first = 0, count = sizeof runs / sizeof runs[0]; /* runs[first] <= key */
    while (count > 1) {
        size_t half = count / 2;
        first += runs[first + half] <= key ? half : 0;
        count -= half;
    }
    return runs[first] & 0xff;
}

bool character_is_ideograph(int32_t c)
{
    return (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0x2f800 && c <= 0x2fa1f);
}

size_t character_decompose(int32_t point, int32_t parts[CHARACTER_MOST_PARTS])
{
    static const struct {
        int32_t first, last;
    } whole[] = {
        {0x105c9, 0x105e4}, {0x11383, 0x113c8}, {0x11938, 0x11938}, {0x16121, 0x16128}, {0x16d68, 0x16d6a},
    };
    parts[0] = point;
    if (point < 0xc0)
        return 1;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (point >= whole[i].first && point <= whole[i].last)
            return 1;
    return utf8_decompose(point, parts, CHARACTER_MOST_PARTS);
}

int character_order(int32_t point)
{
    return (character_flags(point) & CHARACTER_MOVES) != 0 ? utf8_combining_class(point) : 0;
}

size_t character_lower(int32_t point, int32_t lower[CHARACTER_MOST_LOWER])
{
    static const struct {
        int32_t first, last, step, lower; /* every step-th character, and the lower case of the first */
    } pairs[] = {
        {0x1c89, 0x1c89, 1, 0x1c8a},    {0xa7cb, 0xa7cb, 1, 0x264}, {0xa7cc, 0xa7d4, 2, 0xa7cd},
        {0xa7da, 0xa7da, 1, 0xa7db},    {0xa7dc, 0xa7dc, 1, 0x19b}, {0x10d50, 0x10d65, 1, 0x10d70},
        {0x16ea0, 0x16eb8, 1, 0x16ebb},
    };
    if (point < 128) {
        lower[0] = point >= 'A' && point <= 'Z' ? point + 32 : point;
        return 1;
    }
    if (point == 0x130) { /* I with a dot, the only one whose lower case is two characters */
        lower[0] = 'i', lower[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (point >= pairs[i].first && point <= pairs[i].last &&
            (point - pairs[i].first) % pairs[i].step == 0) {
            lower[0] = point - pairs[i].first + pairs[i].lower;
            return 1;
        }
    lower[0] = utf8_lower(point);
    return 1;
}
