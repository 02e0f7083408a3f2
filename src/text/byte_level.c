/* The alternatives of the pattern begin with different characters, apart from the apostrophe and the space,
   so a word needs one pass and no backtracking.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/byte_level.h"

#include "text/characters.h"

static bool is_itself(int32_t c)
{
    return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xff && c != 0xad);
}

int32_t byte_level_character(unsigned char byte)
{
    if (is_itself(byte))
        return byte;
    if (byte <= ' ')
        return 0x100 + byte;
    return byte == 0xad ? 0x143 : 0x100 + 0x21 + (byte - 0x7f);
}

bool byte_level_byte(int32_t c, unsigned char *byte)
{
    if (is_itself(c))
        *byte = (unsigned char)c;
    else if (c >= 0x100 && c <= 0x120)
        *byte = (unsigned char)(c - 0x100);
    else if (c >= 0x121 && c <= 0x142)
        *byte = (unsigned char)(c - 0x121 + 0x7f);
    else if (c == 0x143)
        *byte = 0xad;
    else
        return false;
    return true;
}

enum { LETTER = CHARACTER_LETTER, NUMBER = CHARACTER_NUMBER, SPACE = CHARACTER_SPACE, OTHER = 0 };

static unsigned class_of(int32_t point)
{
    return character_flags(point) & (CHARACTER_LETTER | CHARACTER_NUMBER | CHARACTER_SPACE);
}

/* The size of 's 't 'm 'd 're 've 'll at `at`, which is an apostrophe; 0 if there is none. */
static size_t contraction(const char *at, const char *end)
{
    if (end - at < 2)
        return 0;
    char first = at[1], second = end - at > 2 ? at[2] : '\0';
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    bool is_long = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
    return is_long ? 3 : 0;
}

/* The end of a run of characters of one class. */
static const char *run_end(const char *at, const char *end, unsigned class)
{
    int32_t point;
    while (at < end) {
        size_t size = character_read(at, end, &point);
        if (class_of(point) != class)
            break;
        at += size;
    }
    return at;
}

/* White space that is not the space in front of a word: all of the run but its last character, which belongs
   to what follows; all of it at the end of the text. */
static const char *space_end(const char *at, const char *end)
{
    const char *last = at, *next = at;
    int32_t point;
    while (next < end) {
        size_t size = character_read(next, end, &point);
        if (class_of(point) != SPACE)
            return last > at ? last : next;
        last = next;
        next += size;
    }
    return end;
}

const char *byte_level_word(const char *at, const char *end)
{
    if (*at == '\'') {
        size_t size = contraction(at, end);
        if (size > 0)
            return at + size;
    }
    int32_t point;
    const char *word = at + (*at == ' ' && end - at > 1);
    size_t size = character_read(word, end, &point);
    unsigned class = class_of(point);
    return class == SPACE ? space_end(at, end) : run_end(word + size, end, class);
}

bool byte_level_splits(const char *begin, const char *at, const char *end)
{
    const char *before = at - 1;
    while (before > begin && ((unsigned char)*before & 0xc0) == 0x80 && at - before < 4)
        before--;
    int32_t left, right;
    if (character_read(before, end, &left) != (size_t)(at - before) || left == CHARACTER_NONE)
        return false;
    character_read(at, end, &right);
    /* The space before a word belongs to it, and the letters after an apostrophe may. */
    return right != CHARACTER_NONE && class_of(left) != class_of(right) && class_of(left) != SPACE &&
           left != '\'';
}
