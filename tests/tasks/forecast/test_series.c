/* Tables with dates: which columns are read and in which order, numbers, and everything a file can do wrong,
   with line, row and column.
   Bugs planted and caught: the target left at its place; the column of dates read as numbers; columns of a
   trained model in the order of the file; the value of the neighbour; `nan`, `inf`, 0x10 or an empty cell
   read as numbers; a blank line counted as a row; a row with fewer fields; two columns of one name.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series.h"

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
    return series_read(&folder->host, path, FILE_FOUND, choice, series);
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
    check_columns(folder, &(struct series_choice){.date = "date", .target = ""}, "abc",
                  (const double[]){1, -25, 3}, (const double[]){7, 8, 0.9});
    check_columns(folder, &(struct series_choice){.date = "date", .target = "a"}, "bca",
                  (const double[]){-25, 3, 1}, (const double[]){8, 0.9, 7});
    check_columns(folder, &(struct series_choice){.date = "date", .target = "b", .only_target = true}, "b",
                  (const double[]){-25}, (const double[]){8});
    check_columns(folder, &(struct series_choice){.date = "date", .names = wanted, .count = 2}, "ca",
                  (const double[]){3, 1}, (const double[]){0.9, 7});
}

static void check_refused(struct folder *folder, const char *text, const char *part)
{
    struct series series;
    const struct series_choice choice = {.date = "date", .target = "b"};
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
    check_refused(folder, "day,a,b\n", "line 1: no column 'date' (--date-column); there are: day, a, b");
    check_refused(folder, "date,a,c\n", "line 1: no column 'b' (--target); there are: date, a, c");
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
    const struct series_choice trained = {.date = "date", .names = names, .count = 2};
    check_status(&folder->host, read_text(folder, table, &trained, &series), HASHATTN_BAD_FILE,
                 "no column 'z', which the model reads; there are: a, date, b, c");
    const struct series_choice dates = {.date = "date", .target = "date"};
    check_status(&folder->host, read_text(folder, table, &dates, &series), HASHATTN_BAD_FILE,
                 "the target 'date' is the column of dates");
    check_status(&folder->host, series_read(&folder->host, "/nowhere.csv", FILE_FOUND, &dates, &series),
                 HASHATTN_BAD_FILE, "/nowhere.csv");
}

static void failing_allocations_leave_nothing(void **state)
{
    struct folder *folder = *state;
    char path[100];
    const struct series_choice choice = {.date = "date", .target = ""};
    folder_put_text(folder, "t.csv", table);
    snprintf(path, sizeof path, "%s/t.csv", folder->path);
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long n = 0; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        struct series series;
        failing_host_init(&failing, n);
        status = series_read(&failing.host, path, FILE_FOUND, &choice, &series);
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
        cmocka_unit_test_setup_teardown(failing_allocations_leave_nothing, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
