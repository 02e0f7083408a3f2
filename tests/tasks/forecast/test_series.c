/* Tables with dates: which columns are read and in which order, numbers, and everything a file can do wrong,
   with line, row and column.
   What people's files have: other delimiters and decimal marks, missing values and rows, repeated and
   irregular dates, business days, several series.
   Bugs planted and caught: the target left at its place; the column of dates read as numbers; columns of a
   trained model in the order of the file; the value of the neighbour; `nan`, `inf`, 0x10 or an empty cell
   read as numbers; a blank line counted as a row; a row with fewer fields; two columns of one name;
   a column listed twice, which has written past the fields of the row;
   an interpolation one row late; the mean of repeated rows divided by one more; values of missing rows
   counted twice; a decimal comma read as a group of digits; missing rows limited gap by gap, or for each
   series; a weekend before 1970 in business days; a grid that begins before year 1.
   Covers: series_read.c series_files.c grid.c raw_rows.c
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"

static hashattn_status read_text(struct folder *folder, const char *text, const struct series_choice *choice,
                                 struct series *series)
{
    char path[100];
    folder_put_text(folder, "t.csv", text);
    snprintf(path, sizeof path, "%s/t.csv", folder->path);
    const struct series_file file = {.path = path};
    return series_read(&folder->host, &file, 1, FILE_FOUND, choice, series);
}

static const char table[] = "a,date,b,c\n"
                            "1,2020-01-01,-2.5e1,3\r\n"
                            "4,2020-01-02, 5 ,\"6\"\n"
                            "\n"
                            "7,2020-01-03,+8,.9";

static void check_columns(struct folder *folder, const struct series_choice *choice, const char *names,
                          const double *first, const double *last)
{
    struct series series;
    check_status(&folder->host, read_text(folder, table, choice, &series), HASHATTN_OK, NULL);
    assert_true(series.times == 3 && series.columns == strlen(names) && series.calendar.count == 3);
    for (size_t c = 0; c < series.columns; c++) {
        assert_true(series.names[c][0] == names[c] && series.names[c][1] == '\0');
        check_near(series.values[c], first[c], 0, "the first row");
        check_near(series.values[2 * series.columns + c], last[c], 0, "the last row");
    }
    series_free(&folder->host, &series);
}

static void columns_are_chosen(void **state)
{
    struct folder *folder = *state;
    char *const wanted[] = {(char[]){"c"}, (char[]){"a"}};
    check_columns(folder,
                  &(struct series_choice){
                      .date = "date", .by = "", .format = -1, .freq = "auto", .expected = "", .target = ""},
                  "abc", (const double[]){1, -25, 3}, (const double[]){7, 8, 0.9});
    check_columns(folder,
                  &(struct series_choice){
                      .date = "date", .by = "", .format = -1, .freq = "auto", .expected = "", .target = "a"},
                  "bca", (const double[]){-25, 3, 1}, (const double[]){8, 0.9, 7});
    check_columns(folder,
                  &(struct series_choice){.date = "date",
                                          .by = "",
                                          .format = -1,
                                          .freq = "auto",
                                          .expected = "",
                                          .target = "b",
                                          .only_target = true},
                  "b", (const double[]){-25}, (const double[]){8});
    check_columns(folder,
                  &(struct series_choice){.date = "date",
                                          .by = "",
                                          .format = -1,
                                          .freq = "auto",
                                          .expected = "",
                                          .names = wanted,
                                          .count = 2},
                  "ca", (const double[]){3, 1}, (const double[]){0.9, 7});
}

static void check_refused(struct folder *folder, const char *text, const char *part)
{
    struct series series;
    const struct series_choice choice = {
        .date = "date", .by = "", .format = -1, .freq = "auto", .expected = "", .target = "b"};
    check_status(&folder->host, read_text(folder, text, &choice, &series), HASHATTN_BAD_FILE, part);
    assert_non_null(strstr(folder->host.message, "t.csv: "));
    assert_true(series.values == NULL && series.columns == 0);
}

static void bad_files_are_refused(void **state)
{
    struct folder *folder = *state;
    static const char *const cells[] = {"", "nan", "inf", "NA", "0x10", "1e999", "1,5", "1 2", "-", "1e"};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        char text[200], part[200];
        snprintf(text, sizeof text, "date,a,b\n2020-01-01,1,2\n\n2020-01-02,\"%s\",4\n", cells[i]);
        snprintf(part, sizeof part, "line 4, row 2: column 'a' is '%s', a finite number is needed", cells[i]);
        check_refused(folder, text, part);
    }
    check_refused(folder, "", "the file is empty");
    check_refused(folder, "date,a,b\n", "the file has no row, at least 2 rows are needed");
    check_refused(folder, "date,a,b\n2020-01-01,1,2\n", "the file has 1 row, at least 2 rows");
    check_refused(folder, "day,a,b\n", "line 1: no column 'date' (date_column); there are: day, a, b");
    check_refused(folder, "date,a,c\n", "line 1: no column 'b' (target); there are: date, a, c");
    check_refused(folder, "date,a,b,b\n", "2 columns are called 'b'");
    check_refused(folder, "date,a,a,b\n", "2 columns are called 'a'");
    check_refused(folder, "date,,b\n", "column 2 has no name");
    check_refused(folder, "date,\xff,b\n", "the name of column 2 is not UTF-8");
    check_refused(folder, "date\n", "no column of numbers beside 'date'");
    check_refused(folder, "date,a,b\n2020-01-01,1\n", "line 2, row 1: 2 fields, the header has 3");
    check_refused(folder, "date,a,b\n2020-01-01,1,2\n2020-01-01,1,2\n",
                  "line 3, row 2: the date 2020-01-01 repeats");
    check_refused(folder, "date,a,b\n2020-01-01,1,2\n2020-01-02,1,2\n2020-01-04,1,2\n",
                  "line 4, row 3: 1 date is missing");
    check_refused(folder, "date,a,b\n2020-01-01,\"1,2\n", "line 2: the quote");
    struct series series;
    char *const names[] = {(char[]){"a"}, (char[]){"z"}};
    const struct series_choice trained = {
        .date = "date", .by = "", .format = -1, .freq = "auto", .expected = "", .names = names, .count = 2};
    check_status(&folder->host, read_text(folder, table, &trained, &series), HASHATTN_BAD_FILE,
                 "no column 'z', which the model reads; there are: a, date, b, c");
    static const char *const lists[][2] = {{"b,b", "'b' twice, as number 1 and 2; once is allowed"},
                                           {"a,c,4,b", "'c' twice, as number 2 and 3"},
                                           {"3,b", "'b' twice, as number 1 and 2"},
                                           {"c,a,c,c,c,c,c,c,c", "'c' twice, as number 1 and 3"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct series_choice twice = {.date = "date",
                                            .by = "",
                                            .target = "",
                                            .format = -1,
                                            .freq = "auto",
                                            .expected = "",
                                            .columns = lists[i][0]};
        check_status(&folder->host, read_text(folder, table, &twice, &series), HASHATTN_BAD_FILE,
                     lists[i][1]);
    }
    char *const columns[] = {(char[]){"a"}, (char[]){"b"}};
    struct series_choice run = {.date = "date",
                                .by = "",
                                .format = -1,
                                .freq = "auto",
                                .expected = "D",
                                .names = columns,
                                .count = 2};
    static const char *const of_run[][2] = {
        {"day,a,b\n2020-01-01,1,2\n",
         "no column 'date', which has the dates of the run; there are: day, a, b"},
        {"date,a,b\n2020-01-01,1,2\n2020-01-02,1,2\n2020-01-04,1,2\n",
         "2020-01-03 comes after 2020-01-02; the run reads files without gaps: add the rows"},
        {"date,a,b\n2020-01-01,1,2\n2020-01-01,1,2\n2020-01-02,1,2\n",
         "the row before; the run reads one row per date"},
        {"date,a,b\n2020-01-01,1,\n2020-01-02,1,2\n",
         "the run reads files without missing values: fill it in"},
        {"date,a,b\n2020-01-01,1,x\n2020-01-02,1,2\n", "column 'b' is 'x', a finite number is needed"},
        {"date,a,b\n2020-01-01,1,\"1,5\"\n2020-01-02,1,2\n", "the run reads decimal points here"},
        {"date;a;b\n2020-01-01;1,5;2\n2020-01-02;1.5;2\n", "the file has decimal points and decimal commas"},
        {"date,a,b\n2020-01-01,1,2\n2020-01-02 00:00,1,2\n2020-01-02 "
         "12:00,1,2\n2020-01-03,1,2\n2020-01-04,1,2\n",
         "is expected; the run reads rows that are one period apart"},
        {"1.2.2020,a,b\n2020-01-01,1,2\n", "no column 'date'"},
    };
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++) {
        check_status(&folder->host, read_text(folder, of_run[i][0], &run, &series), HASHATTN_BAD_FILE,
                     of_run[i][1]);
        assert_null(strstr(folder->host.message, "set "));
    }
    run.expected = "B";
    check_status(
        &folder->host,
        read_text(folder, "date,a,b\n1969-12-26,1,2\n1969-12-27,1,2\n1969-12-28,1,2\n", &run, &series),
        HASHATTN_BAD_FILE, "the rows are one period of D apart, the run was trained on B");
    run.expected = "D";
    run.by = "shop";
    check_status(&folder->host, read_text(folder, of_run[1][0], &run, &series), HASHATTN_BAD_FILE,
                 "no column 'shop', which names the series of the run; there are: date, a, b");
    run = (struct series_choice){
        .date = "none", .by = "", .format = -1, .freq = "auto", .expected = "", .names = columns, .count = 2};
    check_status(&folder->host, read_text(folder, "1.5,2.5\n3.5,4.5\n", &run, &series), HASHATTN_BAD_FILE,
                 "'1.5' is no name of a column; the first line must have the names, as in the run's file");
    const struct series_choice dates = {
        .date = "date", .by = "", .format = -1, .freq = "auto", .expected = "", .target = "date"};
    check_status(&folder->host, read_text(folder, table, &dates, &series), HASHATTN_BAD_FILE,
                 "the target 'date' is the column of dates");
    check_status(&folder->host,
                 series_read(&folder->host, &(struct series_file){.path = "/nowhere.csv"}, 1, FILE_FOUND,
                             &dates, &series),
                 HASHATTN_BAD_FILE, "/nowhere.csv");
}

static char found[SERIES_FOUND]; /* by the last check_read */

/* The values of the first column, and what must be said of repairs; NULL: nothing. */
static void check_read(struct folder *folder, const char *text, struct series_choice choice,
                       const double *values, size_t count, const char *repairs)
{
    struct series series;
    choice.by = choice.by == NULL ? "" : choice.by;
    choice.freq = choice.freq == NULL ? "auto" : choice.freq;
    choice.expected = choice.expected == NULL ? "" : choice.expected;
    choice.date = choice.date == NULL ? "" : choice.date;
    choice.target = "";
    choice.format = -1;
    check_status(&folder->host, read_text(folder, text, &choice, &series), HASHATTN_OK, NULL);
    assert_int_equal(series.times, count);
    for (size_t t = 0; t < count; t++)
        check_near(series.values[t * series.columns], values[t], 1e-12 * fabs(values[t]), text);
    assert_int_equal(series.repaired, repairs != NULL);
    if (repairs != NULL && strstr(series.found, repairs) == NULL)
        fail_msg("'%s' lacks '%s'", series.found, repairs);
    snprintf(found, sizeof found, "%s", series.found);
    series_free(&folder->host, &series);
}

#define READS(text, repairs, choice, ...)                                                                    \
    check_read(folder, text, (struct series_choice){choice}, (const double[]){__VA_ARGS__},                  \
               sizeof((double[]){__VA_ARGS__}) / sizeof(double), repairs)
#define NO_CHOICE .date = NULL

static void marks_and_delimiters_are_found(void **state)
{
    struct folder *folder = *state;
    READS("Datum;Last\n31.12.2016;1.234,5\n01.01.2017;-0,25\n", NULL, NO_CHOICE, 1234.5, -0.25);
    assert_non_null(strstr(found, "dates day-first, decimal commas"));
    READS("date\tx\n2016-01-01\t1.5\n2016-01-02\t2\n", NULL, NO_CHOICE, 1.5, 2);
    READS("date|x\n2016-01-01|1\n2016-01-02|2\n", NULL, NO_CHOICE, 1, 2);
    READS("date:x\n2016-01-01:1\n2016-01-02:2\n", NULL, .delimiter = ':', 1, 2);
    READS("date,x\n2016-01-01,\"1,234,567.5\"\n2016-01-02,2\n", NULL, .decimal = DECIMAL_POINT, 1234567.5, 2);
    READS("date,x\n2016-01-01,\"1,5\"\n2016-01-02,2\n", NULL, .decimal = DECIMAL_COMMA, 1.5, 2);
    check_refused(
        folder, "date;a;b\n2016-01-01;1;1.5\n2016-01-02;2;1,5\n",
        "line 3, row 2: column 'b' is '1,5': the file has decimal points and decimal commas; set decimal");
    check_refused(folder, "date,a,b\n2016-01-01,1,\"1,5\"\n2016-01-02,2,1\n",
                  "column 'b' is '1,5', a finite number is needed; set decimal to comma");
}

static void dates_are_found(void **state)
{
    struct folder *folder = *state;
    READS("a,TimeStamp\n1,2016-01-01\n2,2016-01-02\n", NULL, NO_CHOICE, 1, 2);
    READS("a,when\n1,2016-01-01 00:00\n2,2016-01-02 00:00\n", NULL, NO_CHOICE, 1, 2);
    READS("Month,Passengers\n1949-01,112\n1949-02,118\n", NULL, NO_CHOICE, 112, 118);
    READS("year,x\n1949,1\n1950,2\n", NULL, NO_CHOICE, 1, 2);
    READS("a,b\n1,3\n2,4\n", NULL, NO_CHOICE, 1, 2);
    assert_non_null(strstr(found, "2 rows, numbered, 1 to 2"));
    READS("date,b\n1,3\n2,4\n", NULL, .date = "none", 1, 2);
    check_refused(
        folder, "date,a,b\n1/2/2016,1,2\n2/2/2016,1,2\n",
        "'1/2/2016' and all other dates can be read with the day or the month first; set date_format");
    check_refused(folder, "date,a,b\n13/2/2016,1,2\n2/13/2016,1,2\n",
                  "line 3, row 2: '2/13/2016' is not a date");
    check_refused(folder, "date,a,b\n2016-01-01 00:00Z,1,2\n2016-01-01 01:00,1,2\n",
                  "line 3, row 2: some dates have a time zone, others have none");
}

static void repairs_are_told(void **state)
{
    struct folder *folder = *state;
    const char *gap =
        "date,x,y\n2016-01-01,NA,9\n2016-01-02,2,9\n2016-01-05,5,9\n2016-01-06,,9\n2016-01-07,7,9\n"
        "2016-01-08,null,9\n";
    READS(gap, "3 missing values interpolated; 2 missing rows interpolated", .missing = MISSING_INTERPOLATE,
          2, 2, 3, 4, 5, 6, 7, 7);
    READS(gap, "3 missing values filled with the last value; 2 missing rows", .missing = MISSING_LAST, 2, 2,
          2, 2, 5, 5, 7, 7);
    const char *twice = "date,x\n2016-01-01,1\n2016-01-02,2\n2016-01-02,6\n2016-01-03,3\n";
    READS(twice, "1 row of the same time averaged", .repeated = REPEATED_MEAN, 1, 4, 3);
    READS(twice, "1 row of the same time dropped for the first", .repeated = REPEATED_FIRST, 1, 2, 3);
    READS(twice, "1 row of the same time replaced by the last", .repeated = REPEATED_LAST, 1, 6, 3);
    READS("date,x\n2016-01-03,3\n2016-01-02,2\n2016-01-01,1\n", "1 series read backwards", NO_CHOICE, 1, 2,
          3);
    READS("date,x\n2016-01-01 00:01,1\n2016-01-01 00:17,2\n2016-01-01 00:31,3\n",
          "3 rows moved to the beginning of their period", .freq = "15min", 1, 2, 3);
    READS("date,x\n2016-07-01,1\n2016-07-04,2\n2016-07-05,3\n2016-07-07,5\n", "1 missing row interpolated",
          .missing = MISSING_INTERPOLATE, 1, 2, 3, 4, 5);
    check_refused(folder, "date,a,b\n2016-01-01,1,2\n2016-01-02,1,2\n2016-01-02 12:00,1,2\n",
                  "line 4, row 3: the date 2016-01-02 12:00 is not one period after 2016-01-02 00:00, where "
                  "2016-01-03 00:00 is expected; set freq");
    check_refused(folder, "date,a,b\n2016-01-02,1,2\n2016-01-03,1,2\n2016-01-01,1,2\n",
                  "line 4, row 3: the date 2016-01-01 is before 2016-01-03 of the row before");
    check_refused(folder, "date,a,b\n2016-01-01,1,\n2016-01-02,1,2\n", "set missing to interpolate or last");
    struct series series;
    const struct series_choice filled = {.date = "",
                                         .by = "",
                                         .target = "",
                                         .format = -1,
                                         .freq = "auto",
                                         .expected = "",
                                         .missing = MISSING_LAST};
    check_status(&folder->host, read_text(folder, "date,x\n2016-01-01,\n2016-01-02,\n", &filled, &series),
                 HASHATTN_BAD_FILE, "column 'x' has no value");
    const struct series_choice stray = {.date = "",
                                        .by = "",
                                        .target = "",
                                        .format = -1,
                                        .freq = "s",
                                        .expected = "",
                                        .missing = MISSING_LAST};
    check_status(&folder->host, read_text(folder, "date,x\n2016-01-01,1\n2016-02-02,1\n", &stray, &series),
                 HASHATTN_BAD_FILE,
                 "line 3, row 2: 2764799 dates are missing before 2016-02-02 00:00:00, 2764799 up to here, "
                 "allowed are "
                 "2000 (1000 for each of 2 rows): is it a date, and freq right?");
}

/* The rows that are filled in are limited for the file, not for each gap or series: memory grows with the
   file, not with its square. */
static void missing_rows_are_limited_in_all(void **state)
{
    struct folder *folder = *state;
    struct series series;
    struct series_choice choice = {.date = "",
                                   .by = "",
                                   .target = "",
                                   .format = -1,
                                   .freq = "s",
                                   .expected = "",
                                   .missing = MISSING_LAST};
    /* 1999, 1000 and 1002 dates are missing: as many as are allowed for 4 rows, and one more. */
    char text[400];
    for (int more = 0; more < 2; more++) {
        snprintf(text, sizeof text,
                 "date,x\n2016-01-01 00:00:00,1\n2016-01-01 00:33:20,1\n2016-01-01 00:50:01,1\n"
                 "2016-01-01 01:06:4%d,1\n",
                 3 + more);
        hashattn_status status = read_text(folder, text, &choice, &series);
        if (more == 0) {
            check_status(&folder->host, status, HASHATTN_OK, NULL);
            assert_int_equal(series.times, 4004);
            series_free(&folder->host, &series);
        } else {
            check_status(&folder->host, status, HASHATTN_BAD_FILE,
                         "line 5, row 4: 1002 dates are missing before 2016-01-01 01:06:44, 4001 up to here, "
                         "allowed are 4000 (1000 for each of 4 rows): is it a date, and freq right?");
        }
    }
    choice.by = "shop";
    check_status(&folder->host,
                 read_text(folder,
                           "date,shop,x\n2016-01-01 00:00:00,a,1\n2016-01-01 00:33:20,a,1\n"
                           "2016-01-01 00:00:00,b,1\n2016-01-01 00:33:23,b,1\n",
                           &choice, &series),
                 HASHATTN_BAD_FILE,
                 "line 5, row 4: 2002 dates are missing before 2016-01-01 00:33:23, 4001 up to here");
}

static void grids_begin_in_year_1(void **state)
{
    struct folder *folder = *state;
    struct series series;
    struct series_choice choice = {.date = "",
                                   .by = "shop",
                                   .target = "",
                                   .format = -1,
                                   .freq = "100000Y",
                                   .expected = "",
                                   .repeated = REPEATED_LAST};
    const char *text = "date,shop,x\n2015-07-01,a,1\n2016-07-01,a,1\n2010-01-05,b,1\n";
    check_status(
        &folder->host, read_text(folder, text, &choice, &series), HASHATTN_BAD_FILE,
        "line 4, row 3: whole periods of 100000Y back from 2015-07-01 to 2010-01-05 lead before year 1, "
        "dates are of years 1 to 9999: is it a date, and freq right?");
    choice.freq = "auto";
    text = "date,shop,x\n5001-07-01,a,1\n9001-07-01,a,1\n1000-07-01,b,1\n";
    check_status(&folder->host, read_text(folder, text, &choice, &series), HASHATTN_BAD_FILE,
                 "whole periods of 4000Y back from 5001-07-01 to 1000-07-01 lead before year 1");
}

static void series_are_told_apart(void **state)
{
    struct folder *folder = *state;
    struct series series;
    const struct series_choice choice = {
        .date = "", .by = "shop", .target = "", .format = -1, .freq = "auto", .expected = ""};
    check_status(&folder->host,
                 read_text(folder,
                           "date,shop,x\n2016-01-02,b,1\n2016-01-02,a,10\n2016-01-03,b,2\n2016-01-01,a,5\n"
                           "2016-01-04,b,3\n",
                           &choice, &series),
                 HASHATTN_OK, NULL);
    assert_true(series.num_pieces == 2 && series.times == 5 && series.columns == 1);
    assert_string_equal(series.pieces[0].name, "b");
    assert_true(series.pieces[0].row == 1 && series.pieces[0].times == 3 && series.pieces[0].time == 0);
    assert_string_equal(series.pieces[1].name, "a");
    assert_true(series.pieces[1].row == 0 && series.pieces[1].times == 2 && series.pieces[1].time == 3);
    check_near(series.values[3], 5, 0, "the first value of a");
    assert_int_equal(series.calendar.count, 4);
    series_free(&folder->host, &series);
    folder_put_text(folder, "u.csv", "x,date\n7,2016-01-01\n8,2016-01-02\n");
    folder_put_text(folder, "v.csv", "date,x,z\n2016-01-01,1,1\n2016-01-02,2,1\n");
    char paths[2][100];
    snprintf(paths[0], sizeof paths[0], "%s/u.csv", folder->path);
    snprintf(paths[1], sizeof paths[1], "%s/v.csv", folder->path);
    const struct series_file files[] = {{paths[0], "u"}, {paths[1], "v"}};
    const struct series_choice plain = {
        .date = "", .by = "", .target = "", .format = -1, .freq = "auto", .expected = ""};
    check_status(&folder->host, series_read(&folder->host, files, 2, FILE_FOUND, &plain, &series),
                 HASHATTN_OK, NULL);
    assert_true(series.num_pieces == 2 && series.values[1] == 8 && series.values[2] == 1 &&
                series.times == 4);
    series_free(&folder->host, &series);
    folder_put_text(folder, "v.csv", "date,y\n2016-01-01,1\n2016-01-02,2\n");
    check_status(&folder->host, series_read(&folder->host, files, 2, FILE_FOUND, &plain, &series),
                 HASHATTN_BAD_FILE,
                 "v.csv: line 1: no column 'x', which the first file has; there are: date, y");
}

static void failing_allocations_leave_nothing(void **state)
{
    struct folder *folder = *state;
    char path[100];
    const struct series_choice choice = {
        .date = "date", .by = "", .format = -1, .freq = "auto", .expected = "", .target = ""};
    folder_put_text(folder, "t.csv", table);
    snprintf(path, sizeof path, "%s/t.csv", folder->path);
    const struct series_file file = {.path = path};
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long n = 0; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        struct series series;
        failing_host_init(&failing, n);
        status = series_read(&failing.host, &file, 1, FILE_FOUND, &choice, &series);
        if (status == HASHATTN_OK)
            series_free(&failing.host, &series);
        else
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory for");
        assert_int_equal(failing.outstanding, 0);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(columns_are_chosen, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(bad_files_are_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(marks_and_delimiters_are_found, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(dates_are_found, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(repairs_are_told, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(missing_rows_are_limited_in_all, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(grids_begin_in_year_1, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(series_are_told_apart, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(failing_allocations_leave_nothing, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
