/* The words of byte-level BPE against a slow reading of the pattern, alternative by alternative, with
   backtracking; and the characters of bytes. Planted and caught: 'll and 've exchanged; a space before a
   space taken as the beginning of a word; a run of spaces at the end of a text that loses its last; a place
   to cut inside "don't" or before the space of a word; the byte 0xad that stands for itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/byte_level.h"

#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "text/characters.h"

/* 1 letter, 2 number, 4 space, 0 other */
static unsigned class_at(const char *at, const char *end, size_t *size)
{
    int32_t point;
    *size = character_read(at, end, &point);
    return character_flags(point) & 7;
}

static size_t run(const char *at, const char *end, unsigned class)
{
    size_t total = 0, size;
    while (at + total < end && class_at(at + total, end, &size) == class)
        total += size;
    return total;
}

/* The length of the first alternative that matches. */
static size_t slow_word(const char *at, const char *end)
{
    static const char *const short_forms[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < 7; i++)
        if ((size_t)(end - at) >= strlen(short_forms[i]) &&
            memcmp(at, short_forms[i], strlen(short_forms[i])) == 0)
            return strlen(short_forms[i]);
    static const unsigned classes[] = {1, 2, 0};
    for (size_t i = 0; i < 3; i++)
        for (size_t space = *at == ' '; space + 1 > 0; space--) {
            size_t length = run(at + space, end, classes[i]);
            if (length > 0)
                return space + length;
        }
    size_t all = run(at, end, 4), last = 0, size;
    assert_true(all > 0);
    if (at + all == end)
        return all;
    for (size_t i = 0; i < all; i += size) {
        class_at(at + i, end, &size);
        last = i;
    }
    return last > 0 ? last : all;
}

static size_t random_text(struct random *random, char *text, size_t room)
{
    static const char *const pieces[] = {" ",
                                         "  ",
                                         "\n",
                                         "'",
                                         "'s",
                                         "'ll",
                                         "a",
                                         "T",
                                         "e",
                                         "1",
                                         "\xc2\xa0",
                                         "\xe2\x80\x83",
                                         ".",
                                         "\t",
                                         "\xc3\xa9",
                                         "\xe4\xb8\xad",
                                         "\xcc\x81",
                                         "\xc2\xb2",
                                         "\xff",
                                         "\xe4\xb8",
                                         "don't",
                                         " '",
                                         "l",
                                         "ve",
                                         "\xf0\x9f\x99\x82"};
    size_t size = 0;
    for (uint32_t left = random_below(random, 12); left > 0; left--) {
        const char *piece = pieces[random_below(random, sizeof pieces / sizeof pieces[0])];
        if (size + strlen(piece) > room)
            break;
        memcpy(text + size, piece, strlen(piece));
        size += strlen(piece);
    }
    return size;
}

static void words_are_those_of_the_pattern(void **state)
{
    (void)state;
    struct random random = random_open(random_key(3, RANDOM_DATA, 0));
    char text[64];
    for (int n = 0; n < 200000; n++) {
        size_t size = random_text(&random, text, sizeof text);
        for (const char *at = text, *end = text + size; at < end;) {
            size_t want = slow_word(at, end), got = (size_t)(byte_level_word(at, end) - at);
            if (got != want)
                fail_msg("'%.*s' from %zu: %zu, want %zu", (int)size, text, (size_t)(at - text), got, want);
            at += got;
        }
    }
}

/* Wherever a text may be cut, its words end. */
static void texts_are_cut_between_words(void **state)
{
    (void)state;
    struct random random = random_open(random_key(4, RANDOM_DATA, 0));
    char text[64];
    int cuts = 0;
    for (int n = 0; n < 100000; n++) {
        size_t size = random_text(&random, text, sizeof text);
        for (size_t cut = 1; cut < size; cut++) {
            if (!byte_level_splits(text, text + cut, text + size))
                continue;
            cuts++;
            const char *whole = text, *part = text;
            while (part < text + cut) {
                whole = byte_level_word(whole, text + size);
                part = byte_level_word(part, text + cut);
                assert_ptr_equal(whole, part);
            }
        }
    }
    assert_true(cuts > 100000);
}

static void bytes_have_characters(void **state)
{
    (void)state;
    bool seen[0x144] = {false};
    for (int byte = 0; byte < 256; byte++) {
        unsigned char back;
        int32_t c = byte_level_character((unsigned char)byte);
        assert_true(c > ' ' && c < 0x144 && !seen[c] && c != 0x7f && c != 0xad);
        seen[c] = true;
        assert_true(byte_level_byte(c, &back) && back == byte);
    }
    assert_int_equal(byte_level_character(' '), 0x120);
    assert_int_equal(byte_level_character('\n'), 0x10a);
    assert_int_equal(byte_level_character(0xad), 0x143);
    assert_int_equal(byte_level_character(0x7f), 0x121);
    unsigned char byte;
    for (int32_t c = -1; c < 0x400; c++)
        assert_true(byte_level_byte(c, &byte) == (c >= 0 && c < 0x144 && seen[c]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_the_pattern),
        cmocka_unit_test(texts_are_cut_between_words),
        cmocka_unit_test(bytes_have_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
