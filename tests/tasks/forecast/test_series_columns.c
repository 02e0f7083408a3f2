/* The columns of strangers' tables: which one has the dates, and what is refused rather than forecast.
   Bugs planted and caught: dates that cannot be read become a column of numbers; a format that was told does
   not find its dates; spaces around a date; YY/MM/DD read as years of one day; a first row with decimal
   commas taken for names; numbers since 1970 in several units; 12/31/01 taken for YY/MM/DD; a column that is
   not read refused; rows of an hour that are written alike.
   Covers: series_columns.c grid.c
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/dates.h"
#include "support/folder.h"
#include "tasks/forecast/series_read.h"

#include <stdio.h>
#include <string.h>

/* Reads a table; part: of the message, or if it is read of the sentence that says what was found. */
static void check(struct folder *folder, const char *text, struct series_choice choice,
                  hashattn_status status, const char *part)
{
    struct series series;
    char path[100];
    const struct series_file file = {.path = path};
    folder_put_text(folder, "t.csv", text);
    snprintf(path, sizeof path, "%s/t.csv", folder->path);
    choice.by = choice.target = choice.expected = "";
    choice.freq = choice.freq == NULL ? "auto" : choice.freq;
    choice.date = choice.date == NULL ? "" : choice.date;
    check_status(&folder->host, series_read(&folder->host, &file, 1, FILE_FOUND, &choice, &series), status,
                 status == HASHATTN_OK ? NULL : part);
    if (status == HASHATTN_OK && strstr(series.found, part) == NULL)
        fail_msg("'%s' lacks '%s'", series.found, part);
    series_free(&folder->host, &series);
}

#define READ(text, part, ...) check(folder, text, (struct series_choice){__VA_ARGS__}, HASHATTN_OK, part)
#define REFUSED(text, part, ...)                                                                             \
    check(folder, text, (struct series_choice){__VA_ARGS__}, HASHATTN_BAD_FILE, part)
#define NO_CHOICE .format = -1

static void dates_are_no_numbers(void **state)
{
    struct folder *folder = *state;
    static const char serial[] = "Date,x\n45292,1\n45293,2\n";
    REFUSED(serial, "line 2, row 1: column 'Date' is '45292', which is not read as a date like", NO_CHOICE);
    REFUSED(serial, "to none if rows have no dates, or date_format to epoch", NO_CHOICE);
    READ(serial, "numbered, 1 to 2, 2 columns", .date = "none", .format = -1);
    READ(serial, "45292 to 45293, 1 column, dates epoch", .format = DATES_EPOCH);
    REFUSED(serial, "line 1: no column of dates was found for date_format day-first; set date_column",
            .format = DATES_DAY_FIRST);
    REFUSED("when,x\n20160701,1\n20160702,2\n",
            "line 1: no column of dates was found for date_format year-first", .format = DATES_YEAR_FIRST);
    READ("quarter,x\n2024Q1,1\n2024Q2,2\n", "numbered, 1 to 2, 1 column", .format = -1, .columns = "x");
    REFUSED("date,x\n2024Q1,1\n2024Q2,2\n", "column 'date' is '2024Q1', which is not", .format = -1,
            .columns = "x");
    REFUSED("x,quarter\n1,2024Q1\n2,2024Q2\n", "row 1: column 'quarter' is '2024Q1', which is not",
            NO_CHOICE);
    REFUSED("date,x\n,1\n2024-01-01,2\n", "column 'date' is '', which is not", NO_CHOICE);
    READ("hour,time\n1,0.5\n2,1.5\n", "numbered, 1 to 2, 2 columns", NO_CHOICE);
    READ("date,when,x\n1,2024-01-01,3\n2,2024-01-02,4\n", "every D, 2024-01-01 to 2024-01-02, 2 columns",
         NO_CHOICE);
    READ("x, date\n1, 2024-01-01 \n2, 2024-01-02\n", "every D, 2024-01-01 to 2024-01-02, 1 column",
         NO_CHOICE);
    REFUSED("a,b,\n1,2,\n2,3,\n", "column 3 has no name; set columns to read only others", NO_CHOICE);
}

static void times_in_digits_are_read(void **state)
{
    struct folder *folder = *state;
    READ("date,x\n2016073122,1\n2016073123,2\n2016080100,3\n", "every h, 2016073122 to 2016080100",
         NO_CHOICE);
    READ("date,x\n201612,1\n201701,2\n", "every M, 201612 to 201701", NO_CHOICE);
    READ("ts,x\n9999900000,1\n9999960000,2\n10000020000,3\n", "every min, 9999900000 to 10000020000",
         NO_CHOICE); /* milliseconds */
}

static void years_of_two_digits_may_be_days(void **state)
{
    struct folder *folder = *state;
    static const char days[] = "date,x\n24/07/01,1\n24/07/02,2\n24/07/03,3\n";
    REFUSED(days, "line 2, row 1: '24/07/01' and all other dates end in a year or in a day", NO_CHOICE);
    READ(days, "every Y, 24/07/01 to 24/07/03, 1 column, dates day-first", .format = DATES_DAY_FIRST);
    REFUSED("date,x\nJan 01,1\nJan 02,2\n", "set date_format to month-first", NO_CHOICE);
    READ("date,x\n12/31/01,1\n12/31/02,2\n12/31/03,3\n", "every Y, 12/31/01 to 12/31/03", NO_CHOICE);
    READ(days, "every Y, 24/07/01 to 24/07/03", .format = -1, .freq = "Y");
    READ("date,x\n24/07/98,1\n24/07/99,2\n24/07/00,3\n", "every Y", NO_CHOICE); /* no days */
    READ("date,x\n30/07/01,1\n31/07/01,2\n01/08/01,3\n", "every D", NO_CHOICE);
    READ("date,x\nJan 19,1\nFeb 19,2\n", "every M", NO_CHOICE);
}

static void dates_show_their_period(void **state)
{
    struct folder *folder = *state;
    READ("date,x\n2016073100,1\n2016073101,2\n", "every 15min, 201607310000 to 201607310100", .format = -1,
         .freq = "15min", .missing = MISSING_LAST);
    READ("date,x\n2016-07-30,1\n2016-07-31,2\n", "every 6h, 2016-07-30 00:00 to 2016-07-31 00:00",
         .format = -1, .freq = "6h", .missing = MISSING_LAST);
    READ("date,x\n2016-07-30,1\n2016-07-31,2\n", "every D, 2016-07-30 to 2016-07-31", NO_CHOICE);
}

static void first_rows_with_commas_are_no_names(void **state)
{
    struct folder *folder = *state;
    static const char rows[] = "1,5;2,5\n1,7;2,7\n1,9;2\n";
    REFUSED(rows, "line 1: '1,5' is no name of a column", NO_CHOICE);
    READ(rows, "3 rows, numbered, 1 to 3, 2 columns, decimal commas", .no_header = true, .format = -1);
    READ("2024-01-01;1,5\n2024-01-02;2,5\n", "every D, 2024-01-01 to 2024-01-02, 1 column, decimal commas",
         .no_header = true, .format = -1);
    REFUSED("date , 2024-01-01\n1,2024-01-02\n2,2024-01-03\n", "' 2024-01-01' is no name of a column",
            NO_CHOICE);
    READ("2019,2020\n1,2\n3,4\n", "2 rows, numbered", NO_CHOICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(dates_are_no_numbers, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(times_in_digits_are_read, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(years_of_two_digits_may_be_days, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(dates_show_their_period, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(first_rows_with_commas_are_no_names, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
