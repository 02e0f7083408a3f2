/* Text of JSON is UTF-8, whatever the bytes are. Planted and caught: bytes of another encoding written as
   they are; a character cut by the end of the text read beyond it; a surrogate, a long form and a code above
   U+10FFFF let through. Covers: character_out.c json_out.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/json_out.c"

#include "cli/shared/output/character_out.c"
#include "support/check.h"

#define R CHARACTER_REPLACED

static void check_written(const char *text, size_t size, const char *want)
{
    char got[200] = "";
    FILE *stream = fmemopen(got, sizeof got, "w");
    assert_non_null(stream);
    struct json_out json = json_out_to(stream);
    json_out_array(&json, NULL);
    json_out_bytes(&json, NULL, text, size);
    json_out_end_array(&json);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(got, want);
}

static void text_is_utf8(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"a\"\\\n\x7f", "[\"a\\\"\\\\\\u000a\\u007f\"]\n"},
        {"\u00e9 \u20ac \U0001f600 \U0010ffff", "[\"\u00e9 \u20ac \U0001f600 \U0010ffff\"]\n"},
        {"b\xff"
         "d",
         "[\"b" R "d\"]\n"},
        {"\xe9t\xe9", "[\"" R "t" R "\"]\n"},
        {"\x80\xc0\xaf", "[\"" R R R "\"]\n"},             /* begins none; a long form of '/' */
        {"\xe0\x80\xaf", "[\"" R R R "\"]\n"},             /* a long form */
        {"\xed\xa0\x80", "[\"" R R R "\"]\n"},             /* a surrogate */
        {"\xf4\x90\x80\x80", "[\"" R R R R "\"]\n"},       /* above U+10FFFF */
        {"\xf8\x88\x80\x80\x80", "[\"" R R R R R "\"]\n"}, /* five bytes */
        {"\xe2\x82", "[\"" R R "\"]\n"},                   /* cut */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_written(texts[i][0], strlen(texts[i][0]), texts[i][1]);
    check_written("\u20ac", 2, "[\"" R R "\"]\n");
    check_written("a\0b", 3, "[\"a\\u0000b\"]\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_is_utf8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
