/* Decimal numbers in text: values, and texts that are none.
   Bugs planted and caught: spaces at the end not skipped; hexadecimal numbers, an unfinished exponent or an
   infinite value accepted; a text of 64 characters; 0.123, 1234.567 or 1.234.567 taken for a group.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/decimal.h"

#include <stdio.h>
#include <string.h>

#include "support/check.h"

static bool read_text(const char *text, double *value)
{
    return decimal_read((struct piece){text, strlen(text)}, value);
}

static void numbers_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"0", 0},     {"-2.5e1", -25}, {"+.5", 0.5},     {" 7 ", 7},
                 {"1.", 1},    {"1E-3", 1e-3},  {"1e308", 1e308}, {"000123456789", 123456789},
                 {"1e-400", 0}};
    double value;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!read_text(cases[i].text, &value))
            fail_msg("'%s' is not read", cases[i].text);
        check_near(value, cases[i].value, 0, cases[i].text);
    }
    const char *part = "12345";
    assert_true(decimal_read((struct piece){part, 2}, &value) && value == 12);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",  " ",  "nan", "inf", "-inf", "0x10",  "1e999", "1,5", "1 2",
                                        "-", "1e", "1e+", ".",   "e5",   "1.2.3", "--1",   "1f",  "1\t"};
    double value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (read_text(texts[i], &value))
            fail_msg("'%s' is read as %g", texts[i], value);
    char digits[80];
    for (int size = 62; size < 70; size++) {
        snprintf(digits, sizeof digits, "%0*d", size, 5);
        assert_true(read_text(digits, &value) == (size < 64));
    }
}

static void groups_of_thousands_are_found(void **state)
{
    (void)state;
    static const char *const groups[] = {"1.234", "12,345", "-123.456", "+1,000", " 1.234 "};
    static const char *const others[] = {"",       "1",         "0.123",   "1234.567", "1.23",
                                         "1.2345", "1.234.567", "1.234,5", "1 234",    ".123",
                                         "1.",     "-",         "1.234e2", "1.234 5"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (!decimal_is_group((struct piece){groups[i], strlen(groups[i])}))
            fail_msg("'%s'", groups[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (decimal_is_group((struct piece){others[i], strlen(others[i])}))
            fail_msg("'%s'", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(groups_of_thousands_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
