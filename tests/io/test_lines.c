/* Lines with every kind of ending, and fields. Bugs tried and caught: last line without LF dropped; an empty
   line added at the end; CR kept; CR removed from a line without LF; line numbers from 0; the rest of the
   line split at its tabs; an empty field dropped.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/lines.h"

#include <string.h>

#include "support/check.h"

static void check_lines(const char *text, size_t size, const char *const *want)
{
    struct lines lines = lines_open(text, size);
    struct piece line;
    size_t count = 0;
    for (; want[count] != NULL; count++) {
        assert_true(lines_next(&lines, &line));
        if (!piece_is(line, want[count]))
            fail_msg("line %zu is '%.*s', want '%s'", count + 1, (int)line.size, line.bytes, want[count]);
        assert_int_equal(lines.number, count + 1);
    }
    assert_false(lines_next(&lines, &line));
    assert_false(lines_next(&lines, &line));
    assert_int_equal(lines.number, count);
}

#define CHECK_LINES(text, ...) check_lines(text, sizeof text - 1, (const char *const[]){__VA_ARGS__, NULL})
#define CHECK_NO_LINES(text)   check_lines(text, sizeof text - 1, (const char *const[]){NULL})

static void lines_end_as_they_do(void **state)
{
    (void)state;
    CHECK_NO_LINES("");
    CHECK_LINES("a", "a");
    CHECK_LINES("a\n", "a");
    CHECK_LINES("a\nb", "a", "b");
    CHECK_LINES("a\r\nb\r\n", "a", "b");
    CHECK_LINES("\n", "");
    CHECK_LINES("\n\n", "", "");
    CHECK_LINES("\r\n\r", "", "\r"); /* a CR that ends no line is text */
    CHECK_LINES("a\rb\n", "a\rb");
    CHECK_LINES("\xef\xbb\xbf"
                "a\n\xef\xbb\xbf",
                "a", "\xef\xbb\xbf");
    CHECK_NO_LINES("\xef\xbb\xbf");
    CHECK_LINES("\xef\xbb", "\xef\xbb");
}

static void check_fields(const char *text, size_t capacity, size_t count, const char *const *want)
{
    struct piece fields[4];
    assert_int_equal(lines_split((struct piece){text, strlen(text)}, fields, capacity), count);
    for (size_t i = 0; i < count; i++)
        if (!piece_is(fields[i], want[i]))
            fail_msg("field %zu of '%s' is '%.*s', want '%s'", i, text, (int)fields[i].size, fields[i].bytes,
                     want[i]);
}

static void fields_are_cut_at_tabs(void **state)
{
    (void)state;
    check_fields("", 4, 1, (const char *const[]){""});
    check_fields("a", 4, 1, (const char *const[]){"a"});
    check_fields("a\tb", 4, 2, (const char *const[]){"a", "b"});
    check_fields("\t", 4, 2, (const char *const[]){"", ""});
    check_fields("a\t\tc", 4, 3, (const char *const[]){"a", "", "c"});
    check_fields("a\tb\tc\t", 2, 2, (const char *const[]){"a", "b\tc\t"});
    check_fields("a\tb", 1, 1, (const char *const[]){"a\tb"});
    check_fields("a\tb", 0, 0, NULL);
}

static void a_piece_is_a_word_only_whole(void **state)
{
    (void)state;
    assert_true(piece_is((struct piece){"word!", 4}, "word"));
    assert_false(piece_is((struct piece){"word!", 3}, "word"));
    assert_false(piece_is((struct piece){"word!", 5}, "word"));
    assert_true(piece_is((struct piece){"", 0}, ""));
}

static void messages_name_the_line(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct lines lines = lines_open("a\nb\n", 4);
    struct piece line;
    lines_next(&lines, &line);
    lines_next(&lines, &line);
    host_fail(&host, HASHATTN_BAD_FILE, "no label");
    lines_prefix(&host, &lines);
    assert_string_equal(host.message, "line 2: no label");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_as_they_do),
        cmocka_unit_test(fields_are_cut_at_tabs),
        cmocka_unit_test(messages_name_the_line),
        cmocka_unit_test(a_piece_is_a_word_only_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
