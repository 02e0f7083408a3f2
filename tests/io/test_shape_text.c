/* Shapes as Python writes them.
   Bugs planted and caught: "(3)" for one size; no space after a comma; a text cut at one byte too many; too
   little room for the longest text.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/shape_text.h"

#include <stdint.h>
#include <string.h>

#include "support/check.h"

static void shapes_are_those_of_python(void **state)
{
    (void)state;
    const size_t most = SIZE_MAX, shape[] = {12, 0, most, most};
    static const char *const texts[] = {"()", "(12,)", "(12, 0)"};
    char text[SHAPE_TEXT(4)];
    for (int rank = 0; rank < 3; rank++) {
        shape_text(rank, shape, text, sizeof text);
        assert_string_equal(text, texts[rank]);
    }
    shape_text(4, shape, text, sizeof text);
    assert_string_equal(text, "(12, 0, 18446744073709551615, 18446744073709551615)");
    const size_t longest[] = {most, most, most, most};
    shape_text(4, longest, text, sizeof text);
    assert_int_equal(text[strlen(text) - 1], ')');
    assert_in_range(strlen(text), 1, SHAPE_TEXT(4) - 1);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    const size_t shape[] = {12, 345};
    const char *whole = "(12, 345)";
    for (size_t size = 1; size <= 12; size++) {
        char text[16];
        memset(text, '#', sizeof text);
        shape_text(2, shape, text, size);
        size_t kept = size <= strlen(whole) ? size - 1 : strlen(whole);
        assert_int_equal(strlen(text), kept);
        assert_memory_equal(text, whole, kept);
        assert_int_equal(text[size], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_those_of_python),
        cmocka_unit_test(long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
