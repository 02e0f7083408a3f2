/* Statistics of the columns of a piece, against sums by hand and plain loops in long double: means,
   deviations, differences over a season, columns that are constant, and values that are too large. Bugs
   planted and caught: the sample's deviation; rows of the next piece or after the training part; the other
   column; a constant column whose mean is rounded; differences of neighbours in place of a season.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_statistics.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"

enum { COLUMNS = 3, FIRST = 40, SECOND = 30 };

struct table {
    struct host host;
    struct series series;
    struct series_piece pieces[2];
    char *names[COLUMNS];
    double values[FIRST + SECOND][COLUMNS];
    struct task_column columns[COLUMNS];
};

/* Column 0 has waves that grow, column 1 is 0.1, column 2 is squares. */
static void fill(struct table *table)
{
    static char names[COLUMNS][8] = {"waves", "flat", "squares"};
    *table = (struct table){.pieces = {{.times = FIRST}, {.time = FIRST, .times = SECOND}}};
    host_init(&table->host);
    for (size_t t = 0; t < FIRST + SECOND; t++) {
        table->values[t][0] = (double)t * sin((double)t);
        table->values[t][1] = 0.1;
        table->values[t][2] = (double)(t * t);
    }
    for (size_t c = 0; c < COLUMNS; c++)
        table->names[c] = names[c];
    table->series = (struct series){.columns = COLUMNS,
                                    .times = FIRST + SECOND,
                                    .names = table->names,
                                    .values = &table->values[0][0],
                                    .pieces = table->pieces,
                                    .num_pieces = 2};
}

static hashattn_status measured(struct table *table, size_t piece, size_t n, size_t season)
{
    for (size_t c = 0; c < COLUMNS; c++)
        memory_free(&table->host, table->columns[c].name);
    memset(table->columns, 0, sizeof table->columns);
    return series_statistics(&table->host, &table->series, piece, n, season, table->columns);
}

static void release(struct table *table)
{
    for (size_t c = 0; c < COLUMNS; c++)
        memory_free(&table->host, table->columns[c].name);
}

static void columns_are_measured_over_the_first_rows(void **state)
{
    (void)state;
    enum { N = 25 };
    static const size_t seasons[] = {1, 7, N - 1};
    struct table table;
    fill(&table);
    for (size_t piece = 0; piece < 2; piece++)
        for (size_t s = 0; s < sizeof seasons / sizeof seasons[0]; s++) {
            size_t season = seasons[s];
            double(*rows)[COLUMNS] = table.values + table.pieces[piece].time;
            check_status(&table.host, measured(&table, piece, N, season), HASHATTN_OK, NULL);
            for (size_t c = 0; c < COLUMNS; c++) {
                long double sum = 0, squares = 0, sizes = 0;
                for (size_t t = 0; t < N; t++)
                    sum += rows[t][c];
                for (size_t t = 0; t < N; t++)
                    squares += (rows[t][c] - sum / N) * (rows[t][c] - sum / N);
                for (size_t t = season; t < N; t++)
                    sizes += fabsl((long double)rows[t][c] - rows[t - season][c]);
                const struct task_column *found = &table.columns[c];
                double deviation = c == 1 ? 1 : (double)sqrtl(squares / N);
                assert_string_equal(found->name, table.names[c]);
                assert_true(fabs(found->mean - (double)(sum / N)) <= 1e-12 * fabs((double)(sum / N)));
                assert_true(fabs(found->deviation - deviation) <= 1e-12 * deviation);
                assert_true(fabs(found->scale - (double)(sizes / (N - season))) <= 1e-12 * found->scale);
            }
            assert_true(table.columns[1].mean == 0.1); /* the sum of 25 of them is not 2.5 */
        }
    release(&table);
}

/* 0, 1, 4, 9: mean 3.5, squares of distances 49 / 4, 25 / 4, 1 / 4, 121 / 4. */
static void sums_by_hand(void **state)
{
    (void)state;
    struct table table;
    fill(&table);
    check_status(&table.host, measured(&table, 0, 4, 2), HASHATTN_OK, NULL);
    const struct task_column *squares = &table.columns[2];
    assert_true(squares->mean == 3.5 && squares->deviation == 3.5 && squares->scale == 6); /* (4 + 8) / 2 */
    check_status(&table.host, measured(&table, 0, 4, 4), HASHATTN_OK, NULL);
    assert_true(squares->scale == 0); /* no two rows are a season apart */
    check_status(&table.host, measured(&table, 0, 1, 1), HASHATTN_OK, NULL);
    assert_true(squares->mean == 0 && squares->deviation == 1 && squares->scale == 0);
    release(&table);
}

static void large_values_are_refused_by_row(void **state)
{
    (void)state;
    struct table table;
    fill(&table);
    table.values[FIRST + 11][2] = -1e200;
    check_status(&table.host, measured(&table, 1, 11, 1), HASHATTN_OK, NULL);
    check_status(&table.host, measured(&table, 1, 12, 1), HASHATTN_BAD_FILE,
                 "row 12: column 'squares' is -1e+200, too large to standardise; up to 1e150 are allowed");
    release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_measured_over_the_first_rows),
        cmocka_unit_test(sums_by_hand),
        cmocka_unit_test(large_values_are_refused_by_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
