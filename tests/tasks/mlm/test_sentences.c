/* Where sentences end, and what becomes of white space.
   Bugs planted and caught: a stop before a lower-case letter; quotes after a stop not closed over; a wrapped
   line that ends a sentence; a blank line that does not; spaces kept as they are; a space at the beginning;
   the last sentence forgotten; sentences of the text before kept.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/sentences.h"

#include <string.h>

#include "support/check.h"

static void check_split(const char *text, bool wrapped, const char *const *want)
{
    struct host host;
    struct sentences sentences = {.text = NULL};
    host_init(&host);
    check_status(&host, sentences_split(&host, (struct piece){"before. After", 13}, true, &sentences),
                 HASHATTN_OK, NULL);
    check_status(&host, sentences_split(&host, (struct piece){text, strlen(text)}, wrapped, &sentences),
                 HASHATTN_OK, NULL);
    size_t count = 0, start = 0;
    for (; want[count] != NULL; count++) {
        assert_true(count < sentences.count);
        size_t size = sentences.ends[count] - start;
        assert_int_equal(size, strlen(want[count]));
        assert_memory_equal(sentences.text + start, want[count], size);
        start += size;
    }
    assert_int_equal(sentences.count, count);
    sentences_free(&host, &sentences);
    assert_null(sentences.text);
}

static void stops_end_sentences(void **state)
{
    (void)state;
    check_split("One. Two!  Three? four", false, (const char *[]){"One.", " Two!", " Three? four", NULL});
    check_split("He said \"go.\" Then (so.)] 3.5 \xe2\x80\x9cno!\xe2\x80\x9d\xc2\xbb Yes", false,
                (const char *[]){"He said \"go.\"", " Then (so.)]",
                                 " 3.5 \xe2\x80\x9cno!\xe2\x80\x9d\xc2\xbb", " Yes", NULL});
    check_split("a.B c.\xc3\x89 d. \xc3\xa9t", false,
                (const char *[]){"a.B c.\xc3\x89 d.", " \xc3\xa9t", NULL});
    check_split("... ) . ", false, (const char *[]){"...", " ) .", NULL});
}

static void lines_end_sentences_unless_they_are_wrapped(void **state)
{
    (void)state;
    check_split("one line\nand\ttwo\r\n\r\n \nthree\n", false,
                (const char *[]){"one line", " and two", " three", NULL});
    check_split("one line\nand\ttwo\r\n \r\nthree\n", true,
                (const char *[]){"one line and two", " three", NULL});
}

static void odd_texts_are_fine(void **state)
{
    (void)state;
    check_split("", false, (const char *[]){NULL});
    check_split(" \n\t\v\f\r\n", true, (const char *[]){NULL});
    check_split("  x", false, (const char *[]){"x", NULL});
    check_split(".", false, (const char *[]){".", NULL});
    check_split("\xff\xfe. \xff", false, (const char *[]){"\xff\xfe.", " \xff", NULL});
    check_split("\"\") \"' X", false, (const char *[]){"\"\") \"' X", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_end_sentences),
        cmocka_unit_test(lines_end_sentences_unless_they_are_wrapped),
        cmocka_unit_test(odd_texts_are_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
