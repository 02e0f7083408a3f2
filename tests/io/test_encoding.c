/* Latin-1 and Windows-1252 as UTF-8: every byte, against Python's codecs. Planted and caught: two of the
   table's characters swapped; Windows' characters in Latin-1; a character of three bytes cut to two.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/encoding.h"

#include <string.h>

#include "support/check.h"

/* bytes(range(0x80, 0xa0)).decode("cp1252"), with unassigned bytes as control characters. */
static const char windows[] =
    "\u20ac\xc2\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152"
    "\xc2\x8d\u017d\xc2\x8f\xc2\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc"
    "\u2122\u0161\u203a\u0153\xc2\x9d\u017e\u0178";

static void every_byte_is_its_character(void **state)
{
    (void)state;
    struct host host;
    struct encoded encoded = {NULL, 0};
    struct piece utf8;
    char all[256], want[512];
    size_t size = 0;
    host_init(&host);
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        if (i >= 0x80)
            want[size++] = (char)(i < 0xc0 ? 0xc2 : 0xc3);
        want[size++] = (char)(i < 0x80 ? i : 0x80 | (i & 0x3f));
    }
    const struct piece bytes = {all, sizeof all};
    check_status(&host, encoded_utf8(&host, ENCODING_LATIN1, bytes, &encoded, &utf8), HASHATTN_OK, NULL);
    assert_true(utf8.size == size && memcmp(utf8.bytes, want, size) == 0);
    check_status(&host, encoded_utf8(&host, ENCODING_WINDOWS1252, bytes, &encoded, &utf8), HASHATTN_OK, NULL);
    assert_int_equal(utf8.size, 128 + strlen(windows) + 96 * 2);
    assert_memory_equal(utf8.bytes, want, 128);
    assert_memory_equal(utf8.bytes + 128, windows, strlen(windows));
    assert_memory_equal(utf8.bytes + 128 + strlen(windows), want + size - 96 * 2, 96 * 2);
    check_status(&host, encoded_utf8(&host, ENCODING_UTF8, bytes, &encoded, &utf8), HASHATTN_OK, NULL);
    assert_true(utf8.bytes == all && utf8.size == sizeof all);
    encoded_free(&host, &encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_is_its_character)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
