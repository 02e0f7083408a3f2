/* Dates as text and as seconds, periods of seconds and of months, and every break in a calendar refused with
   its dates. Days are compared with timegm of the C library.
   Bugs planted and caught: centuries as leap years; 2000 not one; a month too far; an hour of 24; a second
   date taken without checking the third; the last days of months as a period of days; a date between two
   periods accepted; one missing date counted as two; the time of a day before 1970; seconds dropped from the
   style; a year after 9999; the style of the first date alone, which may lack its time or its seconds; the
   sign before the time taken from the last date.
   SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "io/calendar.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/check.h"

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

static void dates_are_those_of_the_c_library(void **state)
{
    (void)state;
    for (int year = 1; year < 10000; year += year < 1890 || year > 2110 ? 97 : 1)
        for (int month = 1; month <= 12; month++)
            for (int day = 1; day <= 31; day += day < 27 ? 13 : 1) {
                struct tm tm = {.tm_year = year - 1900,
                                .tm_mon = month - 1,
                                .tm_mday = day,
                                .tm_hour = 7,
                                .tm_min = 8,
                                .tm_sec = 9};
                struct date_style style;
                int64_t seconds;
                char text[60], again[DATE_TEXT];
                snprintf(text, sizeof text, "%04d-%02d-%02d 07:08:09", year, month, day);
                int64_t want = timegm(&tm);
                bool real = tm.tm_mday == day; /* timegm moves February 30 into March */
                if (date_read(piece_of(text), &style, &seconds) != real)
                    fail_msg("%s: read as %s", text, real ? "no date" : "a date");
                if (!real)
                    continue;
                assert_int_equal(seconds, want);
                struct calendar calendar = {.style = style, .first = seconds, .count = 1};
                assert_true(calendar_date(&calendar, 0, again));
                assert_string_equal(again, text);
            }
}

static void other_texts_are_no_dates(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "2016",
                                        "2016-07",
                                        "2016-07-",
                                        "2016-7-01",
                                        "2016-07-1",
                                        "16-07-01",
                                        "2016-07-01 ",
                                        "2016-07-01 0",
                                        "2016-07-01 00",
                                        "2016-07-01 00:0",
                                        "2016-07-01 00:00:",
                                        "2016-07-01 00:00:0",
                                        "2016-07-01 00:00:00 ",
                                        "2016-07-01 24:00",
                                        "2016-07-01 00:60",
                                        "2016-07-01 00:00:60",
                                        "2016-13-01",
                                        "2016-00-01",
                                        "2016-01-00",
                                        "0000-01-01",
                                        "2016-07/01",
                                        "2016/07-01",
                                        "2016.07.01",
                                        "-016-07-01",
                                        "2016-02-30",
                                        "1900-02-29",
                                        "2016-07-01Z00:00",
                                        "2016-07-01 00:00:00.5",
                                        " 2016-07-01"};
    struct date_style style;
    int64_t seconds;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (date_read(piece_of(texts[i]), &style, &seconds))
            fail_msg("'%s' was read as a date", texts[i]);
    assert_true(date_read(piece_of("2000-02-29"), &style, &seconds));
}

/* Adds all of them, the first to `good` of which are accepted; then the next fails with `part`. */
static void check_dates(const char *const *dates, size_t good, const char *part)
{
    struct host host;
    struct calendar calendar = {.count = 0};
    host_init(&host);
    for (size_t i = 0; i < good; i++)
        check_status(&host, calendar_add(&host, &calendar, piece_of(dates[i])), HASHATTN_OK, NULL);
    assert_int_equal(calendar.count, good);
    char text[DATE_TEXT];
    for (size_t i = 0; i < good; i++) {
        assert_true(calendar_date(&calendar, i, text));
        assert_string_equal(text, dates[i]);
    }
    if (part != NULL)
        check_status(&host, calendar_add(&host, &calendar, piece_of(dates[good])), HASHATTN_BAD_FILE, part);
    else if (dates[good] != NULL) { /* the row after the last */
        assert_true(calendar_date(&calendar, good, text));
        assert_string_equal(text, dates[good]);
    }
    assert_int_equal(calendar.count, good);
}

#define DATES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void periods_are_found(void **state)
{
    (void)state;
    check_dates(DATES("2016-07-01 00:00:00", "2016-07-01 00:15:00", "2016-07-01 00:30:00"), 2, NULL);
    check_dates(DATES("2016/12/31T22:00", "2016/12/31T23:00", "2017/01/01T00:00"), 2, NULL);
    check_dates(DATES("2016-02-27", "2016-02-28", "2016-02-29", "2016-03-01", "2016-03-02"), 4, NULL);
    check_dates(DATES("2016-02-01", "2016-02-08", "2016-02-15"), 2, NULL);
    check_dates(DATES("2016-01-15", "2016-02-15", "2016-03-15", "2016-04-15"), 3, NULL);
    check_dates(DATES("2015-12-31", "2016-01-31", "2016-02-29", "2016-03-31", "2016-04-30"), 4, NULL);
    check_dates(DATES("2015-04-30", "2015-05-31", "2015-06-30"), 2, NULL);
    check_dates(DATES("2015-10-01 06:00", "2016-01-01 06:00", "2016-04-01 06:00"), 2, NULL);
    check_dates(DATES("1999-01-01", "2000-01-01", "2001-01-01"), 2, NULL);
    check_dates(DATES("1969-12-31 23:59:58", "1969-12-31 23:59:59", "1970-01-01 00:00:00"), 2, NULL);
    check_dates(DATES("2015-01-05", "2015-02-02", "2015-03-02"), 2, NULL); /* every 28 days */
}

/* A midnight may lack its time, and a full minute its seconds, in the first date or in a later one. */
static void forecasts_have_the_finest_style(void **state)
{
    (void)state;
    static const struct {
        const char *dates[3], *next, *first;
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
    struct host host;
    char text[DATE_TEXT];
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct calendar calendar = {.count = 0};
        for (size_t k = 0; k < 3; k++)
            check_status(&host, calendar_add(&host, &calendar, piece_of(cases[i].dates[k])), HASHATTN_OK,
                         NULL);
        assert_true(calendar_date(&calendar, 3, text));
        assert_string_equal(text, cases[i].next);
        assert_true(calendar_date(&calendar, 0, text));
        assert_string_equal(text, cases[i].first);
    }
    struct calendar calendar = {.count = 0};
    calendar_add(&host, &calendar, piece_of("2016-07-01"));
    check_status(&host, calendar_add(&host, &calendar, piece_of("2016-06-30 23:00")), HASHATTN_BAD_FILE,
                 "the date 2016-06-30 23:00 is before 2016-07-01 00:00 of the row before");
    calendar_add(&host, &calendar, piece_of("2016-07-01 12:00"));
    check_status(
        &host, calendar_add(&host, &calendar, piece_of("2016-07-03")), HASHATTN_BAD_FILE,
        "2 dates are missing before 2016-07-03 00:00: 2016-07-02 00:00 comes after 2016-07-01 12:00");
}

static void breaks_are_refused(void **state)
{
    (void)state;
    check_dates(DATES("2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 01:00"), 2,
                "the date 2016-07-01 01:00 repeats that of the row before");
    check_dates(DATES("2016-07-01", "2016-07-01"), 1, "2016-07-01 repeats");
    check_dates(DATES("2016-07-02", "2016-07-03", "2016-07-01"), 2,
                "the date 2016-07-01 is before 2016-07-03 of the row before");
    check_dates(DATES("2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 03:00"), 2,
                "1 date is missing before 2016-07-01 03:00: 2016-07-01 02:00 comes after 2016-07-01 01:00");
    check_dates(DATES("2016-01-01", "2016-02-01", "2016-06-01"), 2,
                "3 dates are missing before 2016-06-01: 2016-03-01 comes after 2016-02-01");
    check_dates(
        DATES("2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 01:30"), 2,
        "2016-07-01 01:30 is not one period after 2016-07-01 01:00, where 2016-07-01 02:00 is expected");
    check_dates(DATES("2016-01-01", "2016-02-01", "2016-03-02"), 2, "where 2016-03-01 is expected");
    check_dates(DATES("July 1"), 0, "'July 1' is not a date like 2016-07-01");
    check_dates(DATES("2016-07-01", ""), 1, "'' is not a date");
}

static void dates_end_with_year_9999(void **state)
{
    (void)state;
    struct host host;
    char text[DATE_TEXT];
    host_init(&host);
    for (int months = 0; months < 2; months++) {
        struct calendar calendar = {.count = 0};
        calendar_add(&host, &calendar, piece_of(months ? "9999-10-31" : "9999-12-30"));
        calendar_add(&host, &calendar, piece_of(months ? "9999-11-30" : "9999-12-31"));
        assert_int_equal(calendar.count, 2);
        assert_true(calendar_date(&calendar, 1, text));
        assert_true(calendar_date(&calendar, 2, text) == (months == 1));
        assert_false(calendar_date(&calendar, 3, text));
        assert_false(calendar_date(&calendar, SIZE_MAX, text));
    }
}

static void rows_of_a_day_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *dates[2];
        size_t per_day;
    } cases[] = {{{"2016-07-01 00:00", "2016-07-01 00:15"}, 96},
                 {{"2016-07-01 00:00", "2016-07-01 07:00"}, 0},
                 {{"2016-07-01", "2016-07-02"}, 1},
                 {{"2016-07-01", "2016-07-03"}, 0},
                 {{"2016-07-01", "2016-08-01"}, 0}};
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct calendar calendar = {.count = 0};
        for (int k = 0; k < 2; k++)
            check_status(&host, calendar_add(&host, &calendar, piece_of(cases[i].dates[k])), HASHATTN_OK,
                         NULL);
        assert_int_equal(calendar_per_day(&calendar), cases[i].per_day);
    }
}

static void check_marks(const char *first, const char *second, size_t index, size_t count,
                        const double want[CALENDAR_MARKS])
{
    struct host host;
    struct calendar calendar = {.count = 0};
    float marks[CALENDAR_MARKS];
    host_init(&host);
    check_status(&host, calendar_add(&host, &calendar, piece_of(first)), HASHATTN_OK, NULL);
    check_status(&host, calendar_add(&host, &calendar, piece_of(second)), HASHATTN_OK, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_those_of_the_c_library),
        cmocka_unit_test(other_texts_are_no_dates),
        cmocka_unit_test(periods_are_found),
        cmocka_unit_test(forecasts_have_the_finest_style),
        cmocka_unit_test(breaks_are_refused),
        cmocka_unit_test(dates_end_with_year_9999),
        cmocka_unit_test(rows_of_a_day_are_counted),
        cmocka_unit_test(features_of_times_are_those_of_the_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
