/* Against a second implementation of the table of well-formed byte sequences (Unicode 3.9, table 3-7), on all
   sequences of up to three bytes and on four-byte sequences around every bound. Bugs tried and caught: the
   eight-byte step skipping a byte above 0x7f; a character cut by the end of the text accepted; the offset
   after the bad byte instead of at it.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/utf8.h"

#include <stdio.h>
#include <string.h>

#include "support/check.h"

/* Length of the well-formed character at p, 0 if there is none within n bytes. */
static size_t oracle(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char first[2], second[2];
        size_t length;
    } rows[] = {
        {{0x00, 0x7f}, {0, 0}, 1},       {{0xc2, 0xdf}, {0x80, 0xbf}, 2}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 3},
        {{0xe1, 0xec}, {0x80, 0xbf}, 3}, {{0xed, 0xed}, {0x80, 0x9f}, 3}, {{0xee, 0xef}, {0x80, 0xbf}, 3},
        {{0xf0, 0xf0}, {0x90, 0xbf}, 4}, {{0xf1, 0xf3}, {0x80, 0xbf}, 4}, {{0xf4, 0xf4}, {0x80, 0x8f}, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (p[0] < rows[i].first[0] || p[0] > rows[i].first[1])
            continue;
        if (rows[i].length > n)
            return 0;
        if (rows[i].length > 1 && (p[1] < rows[i].second[0] || p[1] > rows[i].second[1]))
            return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if (p[k] < 0x80 || p[k] > 0xbf)
                return 0;
        return rows[i].length;
    }
    return 0;
}

static size_t oracle_first_error(const unsigned char *p, size_t n)
{
    size_t at = 0;
    while (at < n) {
        size_t length = oracle(p + at, n - at);
        if (length == 0)
            return at;
        at += length;
    }
    return n;
}

static void check_text(const unsigned char *p, size_t n)
{
    size_t got = utf8_first_error((const char *)p, n), want = oracle_first_error(p, n);
    if (got != want)
        fail_msg("%zu bytes %02x %02x %02x %02x: got %zu, want %zu", n, p[0], p[1], p[2], p[3], got, want);
}

static void every_short_sequence(void **state)
{
    (void)state;
    unsigned char p[4] = {0};
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (unsigned c = 0; c < 256; c++) {
                p[0] = (unsigned char)a, p[1] = (unsigned char)b, p[2] = (unsigned char)c;
                check_text(p, 3);
            }
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            p[0] = (unsigned char)a, p[1] = (unsigned char)b;
            check_text(p, 2);
            check_text(p, 1);
        }
    static const unsigned char edges[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    enum { E = sizeof edges };
    for (unsigned a = 0xe0; a < 256; a++)
        for (size_t i = 0; i < E * E * E; i++) {
            p[0] = (unsigned char)a;
            p[1] = edges[i % E], p[2] = edges[i / E % E], p[3] = edges[i / E / E];
            check_text(p, 4);
        }
}

static void a_bad_byte_is_found_at_every_offset(void **state)
{
    (void)state;
    char text[70];
    for (size_t size = 0; size <= sizeof text; size++)
        for (size_t at = 0; at <= size; at++) {
            memset(text, 'a', sizeof text);
            if (at < size)
                text[at] = (char)0xff;
            assert_int_equal(utf8_first_error(text, size), at);
        }
    /* A character cut by the end of the text. */
    for (size_t before = 0; before < 20; before++)
        for (size_t kept = 0; kept <= 4; kept++) {
            memset(text, 'a', sizeof text);
            memcpy(text + before, "\xf0\x9f\x99\x82", 4);
            size_t size = before + kept;
            assert_int_equal(utf8_first_error(text, size), kept == 0 || kept == 4 ? size : before);
        }
}

static void the_message_names_the_byte(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    check_status(&host, utf8_check(&host, "abc", 3), HASHATTN_OK, NULL);
    check_status(&host, utf8_check(&host, "ab\xc3(", 4), HASHATTN_BAD_FILE,
                 "not UTF-8 at byte 2 of 4 (0xc3)");
}

static void the_library_has_a_version(void **state)
{
    (void)state;
    char text[40];
    unsigned major;
    utf8_library(text, sizeof text);
    assert_int_equal(sscanf(text, "utf8proc %u.", &major), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_sequence),
        cmocka_unit_test(a_bad_byte_is_found_at_every_offset),
        cmocka_unit_test(the_message_names_the_byte),
        cmocka_unit_test(the_library_has_a_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
