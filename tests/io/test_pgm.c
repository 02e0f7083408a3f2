/* PGM pictures: both kinds, several in a file, comments, scaling, and every damage refused.
   Bugs planted and caught: width and height exchanged; the first comment kept instead of the last; the first
   pixel eaten as white space; values not scaled; a number of pixels that wraps; the number of the picture one
   off.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/pgm.h"

#include <stdio.h>
#include <string.h>

#include "support/check.h"

static unsigned char pixels[PGM_PIXELS];

/* Writes the pictures as "WxH:COMMENT:v,v,;". */
static hashattn_status shown(struct host *host, const char *bytes, size_t size, char *text)
{
    struct pgm pgm = pgm_open(bytes, size);
    bool more = true;
    *text = '\0';
    for (size_t count = 1;; count++) {
        TRY(pgm_next(host, &pgm, pixels, &more));
        if (!more)
            return HASHATTN_OK;
        assert_int_equal(pgm.count, count);
        text +=
            sprintf(text, "%zux%zu:%.*s:", pgm.width, pgm.height, (int)pgm.comment.size, pgm.comment.bytes);
        for (size_t i = 0; i < pgm.width * pgm.height; i++)
            text += sprintf(text, "%d,", pixels[i]);
        text += sprintf(text, ";");
    }
}

#define TEXT(literal) literal, sizeof literal - 1

static void pictures_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *want;
    } cases[] = {
        {TEXT(""), ""},
        {TEXT(" \n"), ""},
        {TEXT("P5 2 1 255 ab"), "2x1::97,98,;"},
        {TEXT("P5\n1\n2\n255\n\n "), "1x2::10,32,;"},
        {TEXT("P5#first\n#label 1\r\n3 #inside\n1 255\nxyz"), "3x1:inside:120,121,122,;"},
        {TEXT("P5\n# label 0\n1 1\n255\naP5\n1 1\n255\nb\nP2 1 1 255 7"),
         "1x1: label 0:97,;1x1::98,;1x1::7,;"},
        {TEXT("P2 2 2 1\n0 1\n1\n0\n"), "2x2::0,255,255,0,;"},
        {TEXT("P2\n3 1\n15\n0 7 15"), "3x1::0,119,255,;"},
        {TEXT("P5 2 1 4 \1\4"), "2x1::64,255,;"},
        {TEXT("P5 1 1 255 #"), "1x1::35,;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[400];
        struct host host;
        host_init(&host);
        check_status(&host, shown(&host, cases[i].bytes, cases[i].size, text), HASHATTN_OK, NULL);
        assert_string_equal(text, cases[i].want);
    }
}

static void the_largest_picture_is_read(void **state)
{
    (void)state;
    static char bytes[20 + PGM_PIXELS];
    struct host host;
    bool more;
    host_init(&host);
    int header = sprintf(bytes, "P5 65536 1 255\n");
    memset(bytes + header, 9, PGM_PIXELS);
    struct pgm pgm = pgm_open(bytes, (size_t)header + PGM_PIXELS);
    check_status(&host, pgm_next(&host, &pgm, pixels, &more), HASHATTN_OK, NULL);
    assert_true(more && pgm.width == 65536 && pgm.height == 1 && pixels[65535] == 9);
}

static void damage_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *part;
    } cases[] = {
        {TEXT("P"), "picture 1: 1 byte, a header begins with P5 or P2"},
        {TEXT("\x89PNG"), "picture 1: begins with bytes 0x89 0x50, not with P5 or P2"},
        {TEXT("P6 1 1 255 abc"), "0x50 0x36"},
        {TEXT("P5 1 1 255 aP5 2"), "picture 2: the file ends before the height"},
        {TEXT("P5 x 1 255 a"), "the width is not a number: it begins with byte 0x78"},
        {TEXT("P5 -1 1 255 a"), "the width is not a number: it begins with byte 0x2d"},
        {TEXT("P5 0 1 255 a"), "1 x 0 pixels"},
        {TEXT("P5 257 256 255 a"), "256 x 257 pixels, at most 65536 are read"},
        {TEXT("P5 1000000 1000000 255 a"), "1000000 x 1000000 pixels, at most 65536"},
        {TEXT("P5 65536 65536 255 a"), "65536 x 65536 pixels, at most 65536"}, /* 2^32 */
        {TEXT("P5 1000001 1 255 a"), "the width is above 1000000"},
        {TEXT("P5 99999999999999999999 1 255 a"), "the width is above 1000000"},
        {TEXT("P5 1 1 0 a"), "the largest value is 0, allowed are 1 to 255"},
        {TEXT("P5 1 1 65535 ab"), "the largest value is 65535, allowed are 1 to 255"},
        {TEXT("P5 1 1 255"), "no white space between the largest value and the pixels"},
        {TEXT("P5 1 1 255#c\na"), "no white space"},
        {TEXT("P5 2 2 255 abc"), "2 x 2 pixels, the file has 3"},
        {TEXT("P2 2 1 255 1"), "the file ends before a pixel"},
        {TEXT("P2 2 1 255 1 256"), "pixel 1 is 256, the largest value is 255"},
        {TEXT("P5 2 1 98 ac"), "pixel 1 is 99, the largest value is 98"},
        {TEXT("P2 1 1 255 1.5"), "picture 2: begins with bytes 0x2e 0x35"},
        {TEXT("P5 # open"), "the file ends before the width"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[400];
        struct host host;
        host_init(&host);
        check_status(&host, shown(&host, cases[i].bytes, cases[i].size, text), HASHATTN_BAD_FILE,
                     cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_read),
        cmocka_unit_test(the_largest_picture_is_read),
        cmocka_unit_test(damage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
