/* The curve in a line: levels, columns, memory, locale. Planted and caught: the largest value at a ninth
   level; values averaged with weights of the wrong stride; the last values left out; NaN drawn; LANG before
   LC_ALL.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/sparkline.c"

#include "support/check.h"

static void check_drawn(const double *values, size_t count, size_t columns, bool utf8, const char *want)
{
    struct sparkline line = sparkline_begin();
    char text[SPARKLINE_TEXT];
    for (size_t i = 0; i < count; i++)
        sparkline_add(&line, values[i]);
    sparkline_draw(&line, columns, utf8, text);
    assert_string_equal(text, want);
}

static void values_are_levels(void **state)
{
    (void)state;
    static const double rising[] = {0, 1, 2, 3, 4, 5, 6, 7}, flat[] = {3, 3, 3}, one[] = {5},
                        with_gap[] = {7, NAN, 0, INFINITY};
    check_drawn(rising, 8, 8, true, "▁▂▃▄▅▆▇█");
    check_drawn(rising, 8, 8, false, "_.-~=+*#");
    check_drawn(rising, 8, 64, false, "_.-~=+*#");
    check_drawn(rising, 8, 4, false, "_-+#"); /* means of two: 0.5, 2.5, 4.5, 6.5 */
    check_drawn(flat, 3, 8, false, "___");
    check_drawn(one, 1, 8, true, "▁");
    check_drawn(with_gap, 4, 8, false, "#_");
    check_drawn(rising, 0, 8, true, "");
    check_drawn(rising, 8, 0, true, "");
}

/* A rising line stays one for any number of values, and ends are kept. */
static void any_number_of_values_fits(void **state)
{
    (void)state;
    for (size_t count = 1; count < 5000; count = count * 5 / 4 + 1) {
        struct sparkline line = sparkline_begin();
        char text[SPARKLINE_TEXT];
        for (size_t i = 0; i < count; i++)
            sparkline_add(&line, (double)i);
        assert_true(line.first == 0 && line.last == (double)(count - 1) && line.count <= SPARKLINE_VALUES);
        size_t columns = sparkline_draw(&line, 1000, false, text);
        assert_int_equal(columns, count < SPARKLINE_COLUMNS ? count : SPARKLINE_COLUMNS);
        assert_int_equal(strlen(text), columns);
        static const char levels[] = "_.-~=+*#";
        for (size_t i = 1; i < columns; i++)
            assert_true(strchr(levels, text[i]) >= strchr(levels, text[i - 1]));
        assert_true(count == 1 || text[columns - 1] == '#');
        /* The means of all columns, weighted, are the mean of all values. */
        double sum = line.sum;
        for (size_t i = 0; i < line.count; i++)
            sum += line.values[i] * (double)line.stride;
        check_near(sum, (double)count * (double)(count - 1) / 2, 1e-6, "sum of the values");
    }
}

/* The last value counts even if it waits for others to be averaged with. */
static void the_last_value_is_drawn(void **state)
{
    (void)state;
    struct sparkline line = sparkline_begin();
    char text[SPARKLINE_TEXT];
    for (size_t i = 0; i < SPARKLINE_VALUES; i++)
        sparkline_add(&line, 0);
    sparkline_add(&line, 1);
    size_t columns = sparkline_draw(&line, SPARKLINE_COLUMNS, false, text);
    for (size_t i = 0; i < columns; i++)
        assert_int_equal(text[i], i + 1 < columns ? '_' : '#');
}

static void the_first_variable_that_is_set_says_the_locale(void **state)
{
    (void)state;
    static const struct {
        const char *all, *type, *lang;
        bool want;
    } cases[] = {{NULL, NULL, NULL, false},         {NULL, NULL, "en_US.UTF-8", true},
                 {"C", NULL, "en_US.UTF-8", false}, {"", "", "de_DE.utf8", true},
                 {NULL, "C.UTF-8", "C", true},      {"POSIX", "C.UTF-8", "C.UTF-8", false},
                 {NULL, NULL, "UTF-8", false},      {NULL, NULL, "de_DE.ISO-8859-1", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const values[] = {cases[i].all, cases[i].type, cases[i].lang};
        static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
        for (int k = 0; k < 3; k++)
            values[k] == NULL ? unsetenv(names[k]) : setenv(names[k], values[k], 1);
        assert_int_equal(sparkline_locale(), cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_levels),
        cmocka_unit_test(any_number_of_values_fits),
        cmocka_unit_test(the_last_value_is_drawn),
        cmocka_unit_test(the_first_variable_that_is_set_says_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
