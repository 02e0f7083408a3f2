/* Marks in numbers: which are before fractions, and which may be between thousands.
   Bugs planted and caught: 1.234 beside 987 read as a fraction, with points and with commas; fractions of
   three digits refused; an advice for a mark that does not read the cell; a line with decimal commas cut at
   them.
   Covers: series_numbers.c csv.c
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_numbers.h"

#include <string.h>

#include "base/c_locale.h"
#include "io/csv.h"
#include "support/check.h"

/* Reads cells of one column between semicolons; ends with NULL. */
static hashattn_status read_cells(struct host *host, struct series_choice choice, const char *const *cells,
                                  double *first, size_t *bad)
{
    char *names[] = {(char[]){"x"}};
    const struct series series = {.columns = 1, .names = names};
    struct series_numbers numbers = {.host = host, .choice = &choice, .delimiter = ';'};
    hashattn_status status = series_numbers_begin(&numbers, &series);
    struct c_locale locale = c_locale_begin();
    for (size_t row = 0; cells[row] != NULL && status == HASHATTN_OK; row++) {
        double value;
        status =
            series_numbers_read(&numbers, (struct piece){cells[row], strlen(cells[row])}, 0, row, &value);
        *first = row == 0 ? value : *first;
    }
    c_locale_end(locale);
    if (status == HASHATTN_OK)
        status = series_numbers_check(&numbers, bad);
    series_numbers_free(&numbers);
    return status;
}

#define CELLS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void marks_between_thousands_are_asked_for(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const struct {
        const char *cells[5];
        double first;
        const char *refused;
    } cases[] = {
        {{"987", "1.234"}, 987, "column 'x' is '1.234' and has numbers without a mark: it may be between"},
        {{"-1,234", "7", "12"}, 0, "is '-1,234' and has numbers without a mark"},
        {{"1.234", "7", "12"}, 0, "set decimal to the mark before fractions, point or comma"},
        {{"1.234", "2.345"}, 1.234, NULL},        /* three digits everywhere */
        {{"1.234", "987", "0.5"}, 1.234, NULL},   /* one */
        {{"1.234", "987", "0.125"}, 1.234, NULL}, /* no thousand begins with 0 */
        {{"1.234", "987", "12345"}, 1.234, NULL}, /* thousands without a mark */
        {{"1.234,5", "1.000,0", "987"}, 1234.5, NULL},
        {{"1,234", "987", "1 234,5"}, 1.234, NULL}, /* spaces between thousands */
        {{"987", "1200"}, 987, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double first = 0;
        size_t bad = 99;
        const struct series_choice choice = {.decimal = DECIMAL_AUTO};
        check_status(&host, read_cells(&host, choice, cases[i].cells, &first, &bad),
                     cases[i].refused == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE, cases[i].refused);
        if (cases[i].refused == NULL)
            check_near(first, cases[i].first, 1e-12 * cases[i].first, cases[i].cells[0]);
        else
            assert_int_equal(bad, i == 0 ? 1 : 0);
    }
    double first;
    size_t bad;
    const struct series_choice told = {.decimal = DECIMAL_COMMA};
    check_status(&host, read_cells(&host, told, CELLS("1.234", "987"), &first, &bad), HASHATTN_OK, NULL);
    check_near(first, 1234, 0, "a point between thousands");
}

static void advice_reads_the_cell(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    double first;
    size_t bad;
    const struct series_choice choice = {.decimal = DECIMAL_AUTO};
    static const char *const cells[][2] = {
        {"1,234.5", "'1,234.5', a finite number is needed; set decimal to point"},
        {"1.234.567", "'1.234.567', a finite number is needed; set decimal to comma"},
        {"1 234", "a finite number is needed; set decimal to the mark before fractions, point or comma"},
        {"$5", "set columns to read only some, or series_column if it names series"},
        {"", "set missing to interpolate or last"},
    };
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        check_status(&host, read_cells(&host, choice, CELLS(cells[i][0]), &first, &bad), HASHATTN_BAD_FILE,
                     cells[i][1]);
}

static void decimal_commas_are_no_delimiters(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        char delimiter;
    } cases[] = {{"1,5;2,5\n", ';'},  {"2024-01-01;1,5\n", ';'}, {"1,5\t2,5\t3,5", '\t'}, {"1,2,3\n", ','},
                 {"a,b;c,d\n", ','},  {"1,2|3\n", ','},          {"\"a,1;2\",3\n", ','},  {"7\n", ','},
                 {"a,1,2,3;4\n", ','}};
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct csv csv = csv_of(cases[i].line, strlen(cases[i].line));
        char found = 0;
        check_status(&host, csv_delimit(&host, &csv, 0, &found), HASHATTN_OK, NULL);
        if (found != cases[i].delimiter)
            fail_msg("'%s' is cut at '%c'", cases[i].line, found);
        csv_close(&host, &csv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_between_thousands_are_asked_for),
        cmocka_unit_test(advice_reads_the_cell),
        cmocka_unit_test(decimal_commas_are_no_delimiters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
