/* Periods found in dates and taken by name, rows of times and times of rows, business days, and what follows
   from a period. Days themselves are tested in test_dates.c.
   Bugs planted and caught: the last days of months as their days; the first two dates decide against all
   others; a year after 9999; a weekend inside a week of business days; any skipped weekend as business days;
   a period of weeks without a season; the row of a time in the next month; a calendar that begins before
   year 1, whose months were read outside their table; a feature of a time beyond 64 bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/calendar.h"
#include "io/dates/dates.h"

#include <stdio.h>
#include <string.h>

#include "support/check.h"

enum { MOST_DATES = 16 };

static int64_t time_of(const char *text, struct date_style *style)
{
    int64_t time;
    assert_true(date_read((struct piece){text, strlen(text)}, DATES_YEAR_FIRST, style, &time));
    return time;
}

/* The calendar of all dates. */
static struct calendar find(const char *const *dates)
{
    int64_t times[MOST_DATES];
    size_t n = 0;
    struct date_style style = {.fields = 0}, other;
    for (; dates[n] != NULL; n++) {
        times[n] = time_of(dates[n], &other);
        style = n == 0 ? other : date_style_of_both(style, other);
    }
    struct calendar calendar = calendar_find(times, n);
    calendar.style = style;
    assert_int_equal(calendar.count, n);
    return calendar;
}

/* The dates are the first rows of a period of this name. */
static void check_dates(const char *const *dates, const char *freq)
{
    struct calendar calendar = find(dates);
    char text[DATE_TEXT], name[CALENDAR_FREQ];
    calendar_freq(&calendar, name);
    assert_string_equal(name, freq);
    for (size_t i = 0; dates[i] != NULL; i++) {
        struct date_style style;
        size_t row;
        assert_true(calendar_date(&calendar, i, text));
        assert_string_equal(text, dates[i]);
        assert_true(calendar_row(&calendar, time_of(dates[i], &style), &row));
        assert_int_equal(row, i);
    }
}

#define DATES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void periods_are_found(void **state)
{
    (void)state;
    check_dates(DATES("2016-07-01 00:00:00", "2016-07-01 00:15:00", "2016-07-01 00:30:00"), "15min");
    check_dates(DATES("2016/12/31T22:00", "2016/12/31T23:00", "2017/01/01T00:00"), "h");
    check_dates(DATES("2016-02-27", "2016-02-28", "2016-02-29", "2016-03-01", "2016-03-02"), "D");
    check_dates(DATES("2016-02-01", "2016-02-08", "2016-02-15"), "W");
    check_dates(DATES("2016-01-15", "2016-02-15", "2016-03-15", "2016-04-15"), "M");
    check_dates(DATES("2016-01-30", "2016-02-29", "2016-03-30"), "M");
    check_dates(DATES("2015-12-31", "2016-01-31", "2016-02-29", "2016-03-31", "2016-04-30"), "M");
    check_dates(DATES("2015-04-30", "2015-05-31", "2015-06-30"), "M");
    check_dates(DATES("2015-10-01 06:00", "2016-01-01 06:00", "2016-04-01 06:00"), "Q");
    check_dates(DATES("1999-01-01", "2000-01-01", "2001-01-01"), "Y");
    check_dates(DATES("1949", "1950", "1951"), "Y");
    check_dates(DATES("1949-01", "1949-02", "1949-03"), "M");
    check_dates(DATES("1969-12-31 23:59:58", "1969-12-31 23:59:59", "1970-01-01 00:00:00"), "s");
    check_dates(DATES("2016-07-01 00:00:00.000", "2016-07-01 00:00:00.020"), "20ms");
    check_dates(DATES("2015-01-05", "2015-02-02", "2015-03-02"), "4W"); /* every 28 days */
    check_dates(DATES("2016-07-01", "2016-07-04", "2016-07-05", "2016-07-06", "2016-07-07", "2016-07-08",
                      "2016-07-11"),
                "B");
    check_dates(DATES("2016-07-04", "2016-07-05", "2016-07-06", "2016-07-07", "2016-07-08"), "D");
}

/* Row and whether it begins then. */
static void check_row(const struct calendar *calendar, const char *date, size_t want, bool begins)
{
    struct date_style style;
    size_t row;
    assert_int_equal(calendar_row(calendar, time_of(date, &style), &row), begins);
    assert_int_equal(row, want);
}

/* What most dates are apart is the period, and others lie between its rows. */
static void gaps_are_seen(void **state)
{
    (void)state;
    struct calendar calendar = find(DATES("2016-07-01 00:00", "2016-07-01 03:00", "2016-07-01 04:00",
                                          "2016-07-01 04:30", "2016-07-01 05:30", "2016-07-01 06:30"));
    check_row(&calendar, "2016-07-01 03:00", 3, true);
    check_row(&calendar, "2016-07-01 04:59", 4, false);
    calendar = find(DATES("2016-01-01", "2016-02-01", "2016-06-01"));
    check_row(&calendar, "2016-06-01", 5, true);
    check_row(&calendar, "2016-05-31", 4, false);
    calendar = find(DATES("2016-01-15", "2016-02-15", "2016-03-15"));
    check_row(&calendar, "2016-05-10", 3, false);
    calendar = find(DATES("2016-01-01", "2016-02-01", "2016-03-02"));
    check_row(&calendar, "2016-03-02", 2, false);
    calendar =
        find(DATES("2016-07-01", "2016-07-04", "2016-07-05", "2016-07-07", "2016-07-08", "2016-07-11"));
    check_row(&calendar, "2016-07-07", 4, true);
    check_row(&calendar, "2016-07-09", 5, false);
    check_row(&calendar, "2016-07-25", 16, true);
}

static void check_named(const char *freq, const char *const *dates, const char *first, const char *again)
{
    int64_t times[MOST_DATES];
    size_t n = 0;
    struct host host;
    struct date_style style = {.fields = 0};
    struct calendar calendar;
    char text[DATE_TEXT], name[CALENDAR_FREQ];
    host_init(&host);
    for (; dates[n] != NULL; n++)
        times[n] = time_of(dates[n], &style);
    check_status(&host, calendar_of(&host, freq, times, n, &calendar), HASHATTN_OK, NULL);
    calendar.style = style;
    calendar_date(&calendar, 0, text);
    assert_string_equal(text, first);
    calendar_freq(&calendar, name);
    assert_string_equal(name, again);
}

static void periods_have_names(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "x", "0h", "-1h", "2B", "1.5h", "h2", "100001s", "99999999999999999999s"};
    check_named("h", DATES("2016-07-01 00:20", "2016-07-01 01:20"), "2016-07-01 00:20", "h");
    check_named("h", DATES("2016-07-01 00:20", "2016-07-01 01:21"), "2016-07-01 00:00", "h");
    check_named("15min", DATES("2016-07-01 00:20", "2016-07-01 00:21"), "2016-07-01 00:15", "15min");
    check_named("60min", DATES("2016-07-01 00:00"), "2016-07-01 00:00", "h");
    check_named("D", DATES("2016-07-01 10:00", "2016-07-02 11:00"), "2016-07-01 00:00", "D");
    check_named("B", DATES("2016-07-02", "2016-07-04"), "2016-07-01", "B");
    check_named("M", DATES("2016-07-15", "2016-08-15"), "2016-07-15", "M");
    check_named("M", DATES("2016-07-14", "2016-08-15", "2016-09-16"), "2016-07-01", "M");
    check_named("12M", DATES("2016-07-01"), "2016-07-01", "Y");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct host host;
        struct calendar calendar;
        host_init(&host);
        check_status(&host, calendar_of(&host, bad[i], &(int64_t){0}, 1, &calendar), HASHATTN_INVALID,
                     "a period is needed");
    }
}

static void a_calendar_begins_earlier(void **state)
{
    (void)state;
    static const struct {
        const char *freq, *first, *to, *want;
    } cases[] = {{"h", "2016-07-01 00:00", "2016-06-30 22:30", "2016-06-30 22:00"},
                 {"B", "2016-07-01 00:00", "2016-06-28 00:00", "2016-06-24 00:00"},
                 {"M", "2016-03-31 00:00", "2016-01-31 00:00", "2016-01-31 00:00"},
                 {"Q", "2016-03-31 00:00", "2016-02-01 00:00", "2015-12-31 00:00"},
                 {"D", "2016-03-31 00:00", "2016-04-01 00:00", "2016-03-31 00:00"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host host;
        struct calendar calendar;
        struct date_style style;
        char text[DATE_TEXT];
        int64_t first = time_of(cases[i].first, &style), to = time_of(cases[i].to, &style);
        host_init(&host);
        check_status(&host, calendar_of(&host, cases[i].freq, &first, 1, &calendar), HASHATTN_OK, NULL);
        calendar.style = style;
        assert_true(calendar_begin(&calendar, to));
        calendar_date(&calendar, 0, text);
        assert_string_equal(text, cases[i].want);
    }
}

/* Long periods back from a date lead before year 1, where no date is. */
static void no_calendar_begins_before_year_1(void **state)
{
    (void)state;
    static const struct {
        const char *freq, *first, *to, *want; /* NULL: refused */
    } cases[] = {
        {"100000Y", "2015-07-01", "2010-01-05", NULL}, {"100000M", "2015-07-01", "2010-01-05", NULL},
        {"100000Q", "2015-07-01", "2015-06-30", NULL}, {"100000W", "2015-07-01", "2010-01-05", "0098-12-17"},
        {"100000W", "1015-07-01", "1010-01-05", NULL}, {"2014Y", "2015-07-01", "2010-01-05", "0001-07-01"},
        {"2015Y", "2015-07-01", "2010-01-05", NULL},   {"20M", "0002-09-15", "0001-01-15", "0001-01-15"},
        {"20M", "0002-09-15", "0001-01-14", NULL},     {"14D", "0001-01-15", "0001-01-14", "0001-01-01"},
        {"15D", "0001-01-15", "0001-01-14", NULL},     {"B", "0001-01-08", "0001-01-05", "0001-01-01"},
        {"B", "0001-01-04", "0001-01-03", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host host;
        struct calendar calendar;
        struct date_style style;
        char text[DATE_TEXT];
        int64_t first = time_of(cases[i].first, &style), to = time_of(cases[i].to, &style);
        host_init(&host);
        check_status(&host, calendar_of(&host, cases[i].freq, &first, 1, &calendar), HASHATTN_OK, NULL);
        calendar.style = style;
        assert_int_equal(calendar_begin(&calendar, to), cases[i].want != NULL);
        calendar_date(&calendar, 0, text);
        assert_string_equal(text, cases[i].want != NULL ? cases[i].want : cases[i].first);
    }
}

/* A midnight may lack its time, and a full minute its seconds, in the first date or in a later one. */
static void forecasts_have_the_finest_style(void **state)
{
    (void)state;
    static const struct {
        const char *const dates[4], *next, *first;
    } cases[] = {
        {{"2016-07-01", "2016-07-01 01:00:00", "2016-07-01 02:00:00"},
         "2016-07-01 03:00:00",
         "2016-07-01 00:00:00"},
        {{"2016/07/01", "2016/07/01T00:30", "2016/07/01T01:00"}, "2016/07/01T01:30", "2016/07/01T00:00"},
        {{"2016-07-01 12:00", "2016-07-02", "2016-07-02 12:00"}, "2016-07-03 00:00", "2016-07-01 12:00"},
        {{"2016-07-01 18:00", "2016-07-01T21:00:00", "2016-07-02"},
         "2016-07-02 03:00:00",
         "2016-07-01 18:00:00"},
        {{"2016-07-01", "2016-07-01 00:00:20", "2016-07-01 00:00:40"},
         "2016-07-01 00:01:00",
         "2016-07-01 00:00:00"},
        {{"2016-07-01 00:00", "2016-07-01 00:00:30", "2016-07-01 00:01"},
         "2016-07-01 00:01:30",
         "2016-07-01 00:00:00"},
        {{"2016-01-01", "2016-02-01 00:00", "2016-03-01"}, "2016-04-01 00:00", "2016-01-01 00:00"},
        {{"2016-07-01", "2016-07-02", "2016-07-03"}, "2016-07-04", "2016-07-01"},
    };
    char text[DATE_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct calendar calendar = find(cases[i].dates);
        assert_true(calendar_date(&calendar, 3, text));
        assert_string_equal(text, cases[i].next);
        assert_true(calendar_date(&calendar, 0, text));
        assert_string_equal(text, cases[i].first);
    }
}

static void dates_end_with_year_9999(void **state)
{
    (void)state;
    char text[DATE_TEXT];
    for (int months = 0; months < 2; months++) {
        struct calendar calendar =
            months ? find(DATES("9999-10-31", "9999-11-30")) : find(DATES("9999-12-30", "9999-12-31"));
        assert_true(calendar_date(&calendar, 1, text));
        assert_true(calendar_date(&calendar, 2, text) == (months == 1));
        assert_false(calendar_date(&calendar, 3, text));
        assert_false(calendar_date(&calendar, SIZE_MAX, text));
    }
    struct calendar numbered = {.numbered = true};
    assert_true(calendar_date(&numbered, 41, text));
    assert_string_equal(text, "42");
}

static void rows_of_a_day_and_a_season_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *const dates[4];
        size_t per_day, season;
    } cases[] = {{{"2016-07-01 00:00", "2016-07-01 00:15"}, 96, 96},
                 {{"2016-07-01 00:00", "2016-07-01 07:00"}, 0, 0},
                 {{"2016-07-01", "2016-07-02"}, 1, 7},
                 {{"2016-07-01", "2016-07-04", "2016-07-07"}, 0, 0},
                 {{"2016-07-07", "2016-07-08", "2016-07-11"}, 1, 5},
                 {{"2016-07-01", "2016-07-03"}, 0, 0},
                 {{"2016-07-01", "2016-07-08"}, 0, 52},
                 {{"2016-07-01", "2016-08-01"}, 0, 12},
                 {{"2016-01-01", "2016-04-01"}, 0, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct calendar calendar = find(cases[i].dates);
        assert_int_equal(calendar_per_day(&calendar), cases[i].per_day);
        assert_int_equal(calendar_season(&calendar), cases[i].season);
    }
}

static void check_marks(const char *first, const char *second, size_t index, size_t count,
                        const double want[CALENDAR_MARKS])
{
    struct calendar calendar = find(DATES(first, second));
    float marks[CALENDAR_MARKS];
    calendar_marks(&calendar, index, marks);
    assert_int_equal(calendar_num_marks(&calendar), count);
    for (size_t i = 0; i < CALENDAR_MARKS; i++)
        check_near((double)marks[i], want[i] - 0.5, 1e-7, "a time feature");
}

/* 2016-07-01 was a Friday and day 182 of its year, counted from 0; 1969-12-31 a Wednesday. */
static void features_of_times_are_those_of_the_date(void **state)
{
    (void)state;
    check_marks("2016-07-01 00:00:00", "2016-07-01 01:00:00", 0, 4,
                (double[]){0, 4.0 / 6, 0, 182.0 / 365, 0});
    check_marks("2016-07-01 00:00:00", "2016-07-01 01:00:00", 24 * 3 + 23, 4,
                (double[]){1, 0, 3.0 / 30, 185.0 / 365, 0});
    check_marks("2016-07-01 00:00:00", "2016-07-01 00:15:00", 7, 5,
                (double[]){1.0 / 23, 4.0 / 6, 0, 182.0 / 365, 45.0 / 59});
    check_marks("2015-12-30", "2015-12-31", 1, 4, (double[]){0, 3.0 / 6, 1, 364.0 / 365, 0});
    check_marks("2016-12-30", "2016-12-31", 1, 4, (double[]){0, 5.0 / 6, 1, 1, 0});
    check_marks("1969-12-31 23:00", "1970-01-01 00:00", 0, 4, (double[]){1, 2.0 / 6, 1, 364.0 / 365, 0});
    check_marks("2016-01-31", "2016-02-29", 13, 4, (double[]){0, 1.0 / 6, 27.0 / 30, 58.0 / 365, 0});
}

/* Rows far after year 9999 have features too. Those whose times would not fit 64 bits share them. */
static void features_of_any_row_are_in_range(void **state)
{
    (void)state;
    static const char *const freqs[] = {"7ms", "99999s", "B", "99999W", "5M", "99999Y"};
    struct date_style style;
    int64_t first = time_of("2016-07-01", &style);
    for (size_t i = 0; i < sizeof freqs / sizeof *freqs; i++) {
        struct host host;
        struct calendar calendar;
        float marks[CALENDAR_MARKS], last[CALENDAR_MARKS];
        host_init(&host);
        check_status(&host, calendar_of(&host, freqs[i], &first, 1, &calendar), HASHATTN_OK, NULL);
        calendar_marks(&calendar, SIZE_MAX, last);
        for (size_t index = 1; index != 0; index *= 2) {
            calendar_marks(&calendar, index, marks);
            for (size_t k = 0; k < CALENDAR_MARKS; k++)
                assert_true(marks[k] >= -0.5f && marks[k] <= 0.5f);
        }
        check_same_bits(marks, last, sizeof marks, "features of the last rows");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(periods_are_found),
        cmocka_unit_test(gaps_are_seen),
        cmocka_unit_test(periods_have_names),
        cmocka_unit_test(a_calendar_begins_earlier),
        cmocka_unit_test(no_calendar_begins_before_year_1),
        cmocka_unit_test(forecasts_have_the_finest_style),
        cmocka_unit_test(dates_end_with_year_9999),
        cmocka_unit_test(rows_of_a_day_and_a_season_are_counted),
        cmocka_unit_test(features_of_times_are_those_of_the_date),
        cmocka_unit_test(features_of_any_row_are_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
