/* Dates as text: days against timegm of the C library, every format with its styles read and written again,
   zones against fixed instants, and what is no date.
   Bugs planted and caught: centuries as leap years; 2000 not one; an hour of 24; the time of
   a day before 1970; day and month exchanged; an offset added instead of subtracted; 12 AM as noon;
   milliseconds taken for seconds; a fraction of two digits read as microseconds; a date beside a time that
   decides the style alone; an epoch of 8 digits; years before year 1 rounded towards it, whose months were
   read outside their table; a zone that leads before year 1 or after year 9999; a weekday before 1970;
   2016070113 taken for seconds; milliseconds of 1971 taken for seconds.
   Covers: dates.c date_style.c civil.c
   SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "io/dates/dates.h"

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
                int64_t time;
                char text[60], again[DATE_TEXT];
                snprintf(text, sizeof text, "%04d-%02d-%02d 07:08:09", year, month, day);
                int64_t want = timegm(&tm);
                bool real = tm.tm_mday == day; /* timegm moves February 30 into March */
                if (date_read(piece_of(text), DATES_YEAR_FIRST, &style, &time) != real)
                    fail_msg("%s: read as %s", text, real ? "no date" : "a date");
                if (!real)
                    continue;
                assert_int_equal(time, want * DATE_SECOND);
                date_write(style, time, again);
                assert_string_equal(again, text);
            }
}

/* Days before year 1 are no dates, but their fields are those of the calendar continued backwards: it repeats
   every 400 years. */
static void days_before_year_1_continue_the_calendar(void **state)
{
    (void)state;
    const int64_t cycle = 146097, first = civil_days_before(1) - civil_days_before(1970);
    for (int64_t day = first - cycle - 400; day < first + 800; day++) {
        struct civil date = civil_of(day), later = civil_of(day + 5 * cycle);
        assert_true(date.month >= 1 && date.month <= 12 && date.day >= 1);
        assert_true(date.year + 2000 == later.year && date.month == later.month && date.day == later.day);
        assert_int_equal(civil_days(date), day);
        assert_int_equal(date_weekday(day), date_weekday(day + 5 * cycle));
    }
    assert_true(date_weekday(0) == 3 && date_weekday(-4) == 6 && date_weekday(-3) == 0);
}

static void formats_are_read_and_written(void **state)
{
    (void)state;
    static const int64_t day = 1467331200; /* 2016-07-01 */
    static const struct {
        const char *text, *written; /* NULL: the same */
        enum date_format format;
        int64_t seconds, micros;
    } cases[] = {
        {"2016-07-01", NULL, DATES_YEAR_FIRST, 0, 0},
        {"2016/07/01", NULL, DATES_YEAR_FIRST, 0, 0},
        {"2016-7-1", NULL, DATES_YEAR_FIRST, 0, 0},
        {"20160701", NULL, DATES_YEAR_FIRST, 0, 0},
        {"2016-07", NULL, DATES_YEAR_FIRST, 0, 0},
        {"2016", NULL, DATES_YEAR_FIRST, -182 * 86400, 0},
        {"201607", NULL, DATES_YEAR_FIRST, 0, 0},
        {"2016070113", NULL, DATES_YEAR_FIRST, 13 * 3600, 0},
        {"201607011305", NULL, DATES_YEAR_FIRST, 47100, 0},
        {"20160701130501", NULL, DATES_YEAR_FIRST, 47101, 0},
        {"20160701T1305", NULL, DATES_YEAR_FIRST, 47100, 0},
        {"20160701T150501+0200", "20160701T130501Z", DATES_YEAR_FIRST, 47101, 0},
        {"20160701 13:05", NULL, DATES_YEAR_FIRST, 47100, 0},
        {"20160701T13:05", NULL, DATES_YEAR_FIRST, 47100, 0},
        {"2016-07-01T13:05", NULL, DATES_YEAR_FIRST, 47100, 0},
        {"2016-07-01 3:05", "2016-07-01 03:05", DATES_YEAR_FIRST, 11100, 0},
        {"2016-07-01T00:00:01Z", NULL, DATES_YEAR_FIRST, 1, 0},
        {"2016-07-01 00:00:01 UTC", "2016-07-01 00:00:01Z", DATES_YEAR_FIRST, 1, 0},
        {"2016-07-01T02:00:00+02:00", "2016-07-01T00:00:00Z", DATES_YEAR_FIRST, 0, 0},
        {"2016-06-30 19:30:00-0430", "2016-07-01 00:00:00Z", DATES_YEAR_FIRST, 0, 0},
        {"2016-07-01 01:00:00 +01", "2016-07-01 00:00:00Z", DATES_YEAR_FIRST, 0, 0},
        {"2016-07-01 00:00:00.5", "2016-07-01 00:00:00.500", DATES_YEAR_FIRST, 0, 500000},
        {"2016-07-01 00:00:00.000", "2016-07-01 00:00:00", DATES_YEAR_FIRST, 0, 0},
        {"2016-07-01 00:00:00.0123456789", "2016-07-01 00:00:00.012345", DATES_YEAR_FIRST, 0, 12345},
        {"01.07.2016", NULL, DATES_DAY_FIRST, 0, 0},
        {"1/7/2016 12:00 AM", "1/7/2016 00:00", DATES_DAY_FIRST, 0, 0},
        {"07-01-2016 1:30 pm", "07-01-2016 13:30", DATES_MONTH_FIRST, 48600, 0},
        {"7/1/2016", NULL, DATES_MONTH_FIRST, 0, 0},
        {"1/7/16", NULL, DATES_DAY_FIRST, 0, 0},
        {"07/01/16 00:00", NULL, DATES_MONTH_FIRST, 0, 0},
        {"1-Jul-16", NULL, DATES_DAY_FIRST, 0, 0},
        {"01 jul 2016", "01 Jul 2016", DATES_DAY_FIRST, 0, 0},
        {"01JUL2016", NULL, DATES_DAY_FIRST, 0, 0},
        {"1 July 2016 00:00:01", NULL, DATES_DAY_FIRST, 1, 0},
        {"Jul 2016", NULL, DATES_MONTH_FIRST, 0, 0},
        {"July 2016", NULL, DATES_MONTH_FIRST, 0, 0},
        {"Jul-16", NULL, DATES_MONTH_FIRST, 0, 0},
        {"JUL 1, 2016", NULL, DATES_MONTH_FIRST, 0, 0},
        {"July 01 2016", NULL, DATES_MONTH_FIRST, 0, 0},
        {"2016 Jul", NULL, DATES_YEAR_FIRST, 0, 0},
        {"2016-Jul-01", NULL, DATES_YEAR_FIRST, 0, 0},
        {"1-Jan-69", NULL, DATES_DAY_FIRST, -1498867200, 0},
        {"1-Sept-68", "1-Sep-68", DATES_DAY_FIRST, 1646352000, 0},
        {"1467331200", NULL, DATES_EPOCH, 0, 0},
        {"1467331200.25", "1467331200.250000", DATES_EPOCH, 0, 250000},
        {"1467331200500", NULL, DATES_EPOCH, 0, 500000},
        {"1467331200000001", NULL, DATES_EPOCH, 0, 1},
        {"1467331200000001000", NULL, DATES_EPOCH, 0, 1},
        {"-1", NULL, DATES_EPOCH, -1467331201, 0},
        {"31536000000", NULL, DATES_EPOCH, 31536000 - 1467331200, 0},       /* 1971 in milliseconds, */
        {"31536000000000", NULL, DATES_EPOCH, 31536000 - 1467331200, 0},    /* microseconds */
        {"31536000000000000", NULL, DATES_EPOCH, 31536000 - 1467331200, 0}, /* and nanoseconds */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct date_style style;
        int64_t time;
        char again[DATE_TEXT];
        if (!date_read(piece_of(cases[i].text), cases[i].format, &style, &time))
            fail_msg("'%s' was not read", cases[i].text);
        if (time != (day + cases[i].seconds) * DATE_SECOND + cases[i].micros)
            fail_msg("'%s' is %lld", cases[i].text, (long long)time);
        date_write(style, time, again);
        assert_string_equal(again, cases[i].written == NULL ? cases[i].text : cases[i].written);
    }
}

static void other_texts_are_no_dates(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "2016-07-",
                                        "2016-007-01",
                                        "16-07-01",
                                        "2016-07-01 ",
                                        "2016-07-01 0",
                                        "2016-07-01 00",
                                        "2016-07-01 00:0",
                                        "2016-07-01 00:00:",
                                        "2016-07-01 00:00:0",
                                        "2016-07-01 00:00:00 ",
                                        "2016-07-01 00:00:00.",
                                        "2016-07-01 24:00",
                                        "2016-07-01 13:00 PM",
                                        "2016-07-01 00:00 AM",
                                        "2016-07-01 00:60",
                                        "2016-07-01 00:00:60",
                                        "2016-07-01 00:00+24:00",
                                        "2016-07-01 00:00+1",
                                        "2016-07-01Z",
                                        "2016-07 00:00",
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
                                        " 2016-07-01",
                                        "31.12.9",
                                        "31-12-19",
                                        "1-Ju-19",
                                        "1-Julyy-19",
                                        "Janu 2020",
                                        "January",
                                        "Jan 20, 20201",
                                        "Feb 30, 2020",
                                        "Feb-2020-1",
                                        "1-Feb 2019",
                                        "1.2/2016",
                                        "1 2 2016",
                                        "14673312000000010001",
                                        "9999999999999999999",
                                        "1467331200500.5",
                                        "0001-01-01 00:59+01:00",
                                        "9999-12-31 23:00-01:00",
                                        "2016-07-01 1305",
                                        "20160701 1305",
                                        "Jul012016T13",
                                        "July 1"};
    struct date_style style;
    int64_t time;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int f = 0; f < DATES_FORMATS; f++)
            if (date_read(piece_of(texts[i]), (enum date_format)f, &style, &time))
                fail_msg("'%s' was read as a date, %s", texts[i], date_formats[f]);
    assert_true(date_read(piece_of("2000-02-29"), DATES_YEAR_FIRST, &style, &time));
    assert_true(date_read(piece_of("0001-01-01 01:00+01:00"), DATES_YEAR_FIRST, &style, &time));
    assert_true(date_read(piece_of("9999-12-31 22:59-01:00"), DATES_YEAR_FIRST, &style, &time));
    assert_false(date_read(piece_of("7.1.2016"), DATES_MONTH_FIRST, &style, &time));
    static const char *const digits[] = {"2016071",   "201613",      "210007",
                                         "201607010", "20160701000", "2100070100"};
    for (size_t i = 0; i < sizeof digits / sizeof *digits; i++)
        assert_false(date_read(piece_of(digits[i]), DATES_YEAR_FIRST, &style, &time));
}

/* Whether these formats, and no others, read all texts. */
static void check_choice(const char *const *texts, const char *want)
{
    struct date_choice choice = date_choice_begin();
    char found[DATES_FORMATS + 1] = "";
    bool any = true;
    for (; *texts != NULL && any; texts++)
        any = date_choice_add(&choice, piece_of(*texts));
    for (int f = 0; f < DATES_FORMATS && any; f++)
        if (choice.reads[f])
            strncat(found, date_formats[f], 1);
    assert_string_equal(found, want);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_format_that_reads_all_is_found(void **state)
{
    (void)state;
    check_choice(TEXTS("2016-07-01", "2016-07-31"), "y");
    check_choice(TEXTS("1/2/2016", "2/2/2016"), "dm");
    check_choice(TEXTS("1/2/2016", "13/2/2016"), "d");
    check_choice(TEXTS("1/2/2016", "1/13/2016"), "m");
    check_choice(TEXTS("1.2.2016"), "d");
    check_choice(TEXTS("13/2/2016", "1/13/2016"), "");
    check_choice(TEXTS("1467331200", "1467331201"), "e");
    check_choice(TEXTS("20160701", "20160702"), "y");
    check_choice(TEXTS("2016070100", "2016070101"), "ye");
    check_choice(TEXTS("2016070123", "2016070124"), "e"); /* no hour 24 */
    check_choice(TEXTS("1712010100", "1712010101"), "e"); /* no year 1712 */
    check_choice(TEXTS("201607010000", "201607010015"), "ye");
    check_choice(TEXTS("201612", "201701"), "y");
    check_choice(TEXTS("1949", "1950"), "y");
    check_choice(TEXTS("12", "13"), "");
    check_choice(TEXTS("Jan 2020", "Dec 2020"), "m");
    check_choice(TEXTS("1-Feb-19", "2-Feb-19"), "d");
    check_choice(TEXTS("Feb 1, 2019", "Feb 2, 2019"), "m");
    check_choice(TEXTS("1/2/16", "13/2/16"), "d");
    check_choice(TEXTS("1/2/16"), "dm");
}

/* The numbers of a file since 1970 are of its smallest unit. */
static void epochs_have_one_unit(void **state)
{
    (void)state;
    struct date_style style;
    int64_t time;
    assert_true(date_read(piece_of("-86400000"), DATES_EPOCH, &style, &time));
    assert_int_equal(date_of_unit(&style, DATE_SECOND, time), -1000 * DATE_DAY);
    assert_int_equal(date_of_unit(&style, DATE_SECOND / 1000, time), -DATE_DAY);
    assert_int_equal(date_of_unit(&style, 1, time), -DATE_DAY / 1000);
    assert_int_equal(date_of_unit(&style, 0, 1000 * time), -DATE_DAY / 1000);
}

/* The first date of a file may lack what the others have. */
static void styles_are_put_together(void **state)
{
    (void)state;
    struct date_style first, other;
    int64_t time;
    char text[DATE_TEXT];
    assert_true(date_read(piece_of("May 2020"), DATES_MONTH_FIRST, &first, &time));
    assert_true(date_read(piece_of("June 2020"), DATES_MONTH_FIRST, &other, &time));
    date_write(date_style_of_both(first, other), time, text);
    assert_string_equal(text, "June 2020");
    assert_true(date_read(piece_of("2016-07-01"), DATES_YEAR_FIRST, &first, &time));
    assert_true(date_read(piece_of("2016-07-01T01:00:00.250Z"), DATES_YEAR_FIRST, &other, &time));
    date_write(date_style_of_both(first, other), time, text);
    assert_string_equal(text, "2016-07-01T01:00:00.250Z");
    date_write(date_style_of_both(other, first), time, text);
    assert_string_equal(text, "2016-07-01T01:00:00.250Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_those_of_the_c_library),
        cmocka_unit_test(days_before_year_1_continue_the_calendar),
        cmocka_unit_test(formats_are_read_and_written),
        cmocka_unit_test(other_texts_are_no_dates),
        cmocka_unit_test(the_format_that_reads_all_is_found),
        cmocka_unit_test(epochs_have_one_unit),
        cmocka_unit_test(styles_are_put_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
