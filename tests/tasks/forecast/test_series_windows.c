/* Series that are cut into parts and windows: parts by shares and by months, the rows that each part reads,
   what has no room for a window, standardised values, several pieces, and values and series that cannot be
   used.
   Bugs planted and caught: validation without the rows before it; one window too many, or too few; months of
   31 days; a share rounded down by floating point; the window after the end one row early; the statistics of
   the first series for all; a window from one piece into the next; the mean that is not subtracted.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_windows.h"

#include <stdlib.h>

#include "io/dates/dates.h"
#include "support/check.h"

enum { LENGTH = 10, HORIZON = 5, COLUMNS = 2, MOST = 700 };

static const struct windows like = {
    .columns = COLUMNS, .length = LENGTH, .horizon = HORIZON, .patch = 5, .stride = 5};
static const struct series_cut shares = {.train_share = 0.7, .test_share = 0.2};

/* Pieces of so many rows; row t of the whole has the values t and 2 t. */
struct table {
    struct host host;
    struct series series;
    struct series_piece pieces[2];
    double values[MOST][COLUMNS];
    struct task_column columns[2 * COLUMNS];
    char *names[2];
    struct task_facts facts;
};

static struct table *table_new(size_t first, size_t second, size_t minutes)
{
    struct table *table = calloc(1, sizeof *table);
    host_init(&table->host);
    for (size_t t = 0; t < first + second; t++)
        for (size_t c = 0; c < COLUMNS; c++)
            table->values[t][c] = (double)((c + 1) * t);
    table->names[0] = second > 0 ? "north" : NULL;
    table->names[1] = "south";
    for (size_t p = 0; p < 2; p++)
        table->pieces[p] = (struct series_piece){
            .name = table->names[p], .time = p * first, .times = p == 0 ? first : second, .row = 1000 * p};
    for (size_t c = 0; c < 2 * COLUMNS; c++) /* of north, then of south */
        table->columns[c] = (struct task_column){.name = "x", .mean = c < 2 ? 3 : 100, .deviation = 2};
    table->series = (struct series){.calendar = {.period = (int64_t)minutes * 60 * DATE_SECOND},
                                    .columns = COLUMNS,
                                    .times = first + second,
                                    .values = &table->values[0][0],
                                    .pieces = table->pieces,
                                    .num_pieces = second > 0 ? 2 : 1};
    table->facts = (struct task_facts){.columns = table->columns,
                                       .num_columns = second > 0 ? 2 * COLUMNS : COLUMNS,
                                       .series = table->names,
                                       .num_series = second > 0 ? 2 : 0};
    return table;
}

/* The rows that the windows of a split read and forecast are [first, end). */
static void check_split(struct table *table, const struct series_cut *cut, enum split split, size_t first,
                        size_t end)
{
    struct dataset data = {0};
    size_t begin;
    check_status(
        &table->host,
        series_windows(&table->host, &table->series, cut, &like, &table->facts, split, &data, &begin),
        HASHATTN_OK, NULL);
    const struct windows *w = &data.windows;
    assert_int_equal(begin, first);
    assert_int_equal(begin + w->count - 1 + LENGTH + (split == SPLIT_COUNT ? 0 : HORIZON), end);
    assert_int_equal(w->times, end - first);
    assert_int_equal(w->blind, split == SPLIT_COUNT);
    assert_int_equal(data.count, w->count * COLUMNS);
    assert_int_equal(data.offsets[data.count], data.count * windows_rows(w));
    float rows[LENGTH];
    windows_read(w, 1, rows); /* window 0 of the second column */
    check_near((double)rows[9], (2 * (double)(first + 9) - 3) / 2, 1e-5, "a standardised value");
    dataset_free(&table->host, &data);
}

static void parts_follow_each_other(void **state)
{
    (void)state;
    struct table *table = table_new(203, 0, 60);
    check_split(table, &shares, SPLIT_TRAIN, 0, 142);
    check_split(table, &shares, SPLIT_VALID, 132, 163);
    check_split(table, &shares, SPLIT_TEST, 153, 203);
    check_split(table, &shares, SPLIT_COUNT, 193, 203);
    check_split(table, &(struct series_cut){.train_share = 0.5, .test_share = 0.1}, SPLIT_VALID, 91, 183);
    free(table);
    table = table_new(700, 0, 60); /* 0.7 * 700 is below 490 in floating point */
    check_split(table, &shares, SPLIT_TRAIN, 0, 490);
    free(table);
    static const struct series_cut months = {.months = true};
    table = table_new(610, 0, 24 * 60);
    check_split(table, &months, SPLIT_TRAIN, 0, 360);
    check_split(table, &months, SPLIT_VALID, 350, 480);
    check_split(table, &months, SPLIT_TEST, 470, 600);
    check_split(table, &months, SPLIT_COUNT, 600, 610);
    free(table);
}

/* A piece is cut by its own rows and standardised by its own statistics; no window reaches into the next. */
static void pieces_are_series_of_their_own(void **state)
{
    (void)state;
    struct table *table = table_new(100, 60, 60);
    struct dataset data = {0};
    size_t begin;
    check_status(&table->host,
                 series_windows(&table->host, &table->series, &shares, &like, &table->facts, SPLIT_TRAIN,
                                &data, &begin),
                 HASHATTN_OK, NULL);
    const struct windows *w = &data.windows;
    size_t of_north = 70 - LENGTH - HORIZON + 1, of_south = 42 - LENGTH - HORIZON + 1;
    assert_int_equal(w->count, of_north + of_south);
    for (size_t i = 0; i < w->count; i++) {
        bool north = i < of_north;
        size_t t = north ? i : 100 + i - of_north; /* the row of the whole where it begins */
        float rows[LENGTH], target[HORIZON];
        assert_int_equal(w->origins[i].series, !north);
        assert_int_equal(w->origins[i].row, north ? i : 1000 + i - of_north);
        windows_read(w, COLUMNS * i, rows);
        windows_ask(w, COLUMNS * i, target);
        check_near((double)rows[0], ((double)t - (north ? 3 : 100)) / 2, 1e-5, "the first value");
        check_near((double)target[4], ((double)(t + 14) - (north ? 3 : 100)) / 2, 1e-5, "the last target");
    }
    dataset_free(&table->host, &data);
    free(table);
}

static void what_cannot_be_used_is_refused(void **state)
{
    (void)state;
    static const struct series_cut months = {.months = true},
                                   long_test = {.train_share = 0.9, .test_share = 0.2},
                                   of_run = {.train_share = 0.7, .test_share = 0.2, .recorded = true},
                                   months_of_run = {.months = true, .recorded = true},
                                   long_test_of_run = {
                                       .train_share = 0.9, .test_share = 0.2, .recorded = true};
    static const struct {
        size_t rows, minutes;
        const struct series_cut *cut;
        enum split split;
        const char *part;
    } cases[] = {
        {4, 60, &shares, SPLIT_TRAIN, "a forecast has 5 rows (horizon), the file has 4"},
        {20, 60, &shares, SPLIT_TRAIN,
         "a forecast reads 10 rows (seq_len) and has 5 (horizon), the training part has 14 of 20 rows"},
        {30, 60, &shares, SPLIT_TEST, "a forecast has 5 rows (horizon), the validation part has 3 of 30"},
        {100, 60, &long_test, SPLIT_TRAIN, "leave nothing of 100 rows for validation"},
        {100, 60, &months, SPLIT_TRAIN, "100 rows, the 12, 4 and 4 months of split_by months have 14400"},
        {100, 7 * 60, &months, SPLIT_TRAIN, "rows that divide a day"},
        {9, 60, &shares, SPLIT_COUNT, "9 rows, a forecast reads 10"},
        {4, 60, &of_run, SPLIT_TRAIN, "a forecast has 5 rows, the file has 4"},
        {20, 60, &of_run, SPLIT_TRAIN,
         "a forecast reads 10 rows and has 5, the training part has 14 of 20 rows"},
        {30, 60, &of_run, SPLIT_TEST, "a forecast has 5 rows, the validation part has 3 of 30"},
        {100, 60, &long_test_of_run, SPLIT_TRAIN,
         "shares of 0.9 for training and 0.2 for the test leave nothing of 100 rows"},
        {100, 60, &months_of_run, SPLIT_TRAIN, "100 rows, the 12, 4 and 4 months have 14400"},
    };
    struct dataset data = {0};
    size_t begin;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table *table = table_new(cases[i].rows, 0, cases[i].minutes);
        check_status(&table->host,
                     series_windows(&table->host, &table->series, cases[i].cut, &like, &table->facts,
                                    cases[i].split, &data, &begin),
                     HASHATTN_BAD_FILE, cases[i].part);
        free(table);
    }
    struct table *table = table_new(100, 60, 60);
    table->pieces[1].name = "east";
    check_status(&table->host,
                 series_windows(&table->host, &table->series, &shares, &like, &table->facts, SPLIT_TRAIN,
                                &data, &begin),
                 HASHATTN_BAD_FILE, "has not read a series 'east'; it has: north, south");
    table->pieces[1].name = "south";
    table->values[101][0] = 1e20;
    check_status(&table->host,
                 series_windows(&table->host, &table->series, &shares, &like, &table->facts, SPLIT_TRAIN,
                                &data, &begin),
                 HASHATTN_BAD_FILE, "row 2: column 'x' is 1e+20, more than 1e+18 deviations");
    dataset_free(&table->host, &data);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(pieces_are_series_of_their_own),
        cmocka_unit_test(what_cannot_be_used_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
