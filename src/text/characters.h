/* Characters of a text: reading UTF-8, and the properties that tokenizers ask for, as the reference library
   has them (tools/unicode_classes.py).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_CHARACTERS_H
#define TEXT_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHARACTER_LETTER = 1,      /* \p{L} of Unicode 16 */
    CHARACTER_NUMBER = 2,      /* \p{N} of Unicode 16 */
    CHARACTER_SPACE = 4,       /* White_Space */
    CHARACTER_PUNCTUATION = 8, /* of BERT: category P of Unicode 8, and all ASCII that looks like it */
    CHARACTER_CONTROL = 16,    /* removed by BERT's cleaning: category C of Unicode 8, NUL, U+FFFD */
    CHARACTER_MARK = 32,       /* an accent for BERT: category Mn of Unicode 8 */
    CHARACTER_WORD = 64,       /* \w */
    CHARACTER_MOVES = 128,     /* combining class above 0 in Unicode 9: sorted by NFD */
};

enum {
    CHARACTER_NONE = -1,           /* a byte that begins no UTF-8 character */
    CHARACTER_REPLACEMENT = 0xfffd /* U+FFFD */
};

/* Reads the character at `at` < `end` and returns its size in bytes. A byte that begins no well-formed
   character is CHARACTER_NONE, of size 1. */
size_t character_read_long(const char *at, const char *end, int32_t *point);
static inline size_t character_read(const char *at, const char *end, int32_t *point)
{
    unsigned char first = (unsigned char)*at;
    if (first < 0x80) {
        *point = first;
        return 1;
    }
    return character_read_long(at, end, point);
}
/* The bytes at `at` that begin no character and become one U+FFFD: the longest beginning of a character, at
   least 1. */
size_t character_broken(const char *at, const char *end);
/* True if the bytes from `at` < `end` on are the beginning of a character that more bytes could complete. */
bool character_is_cut(const char *at, const char *end);
/* Writes a character and returns its size, 1 to 4 bytes. */
size_t character_write(int32_t point, char bytes[4]);

/* The flags above; 0 for CHARACTER_NONE. */
unsigned character_flags_long(int32_t point);
extern const uint8_t character_ascii[128];
static inline unsigned character_flags(int32_t point)
{
    return (uint32_t)point < 128 ? character_ascii[point] : character_flags_long(point);
}

/* True for the ideographs that BERT separates by spaces. */
bool character_is_ideograph(int32_t point);

enum {
    CHARACTER_MOST_PARTS = 18, /* of a decomposition */
    CHARACTER_MOST_LOWER = 2,
};
/* The canonical decomposition, in order; returns the number of characters, at least 1. */
size_t character_decompose(int32_t point, int32_t parts[CHARACTER_MOST_PARTS]);
/* The class that sorts combining marks; 0 for a character that stays in its place. */
int character_order(int32_t point);
/* Lower case; returns the number of characters, 1 or 2. */
size_t character_lower(int32_t point, int32_t lower[CHARACTER_MOST_LOWER]);

#endif
