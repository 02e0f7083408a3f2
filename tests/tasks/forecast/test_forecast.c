/* The task forecast: standardised columns, seasons, what every option makes of the rows and targets, files
   that are series, and lengths that do not fit, with the numbers.
   Bugs planted and caught: mean and deviation of the whole file; the sample deviation; a constant column
   divided by 0; MS with the targets of all columns; patches for a baseline; the season of a day for daily
   dates; the statistics of the first series for all; the next series as the truth after the end of one;
   quantiles that are not compared with the one before.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dates/calendar.h"
#include "io/dates/civil.h"
#include "support/folder.h"
#include "support/task_case.h"

/* Rows of three columns: x = t, y = (t mod 7)^2, and z, which is constant in the first `constant` rows. */
static void put_table(struct folder *folder, size_t rows, size_t minutes, size_t constant)
{
    char *text = malloc(rows * 80 + 80);
    size_t used = (size_t)sprintf(text, "date,x,y,z\n");
    struct calendar calendar = {.style = {.fields = 3, .between = '-', .before = ' ', .seconds = true},
                                .period = (int64_t)minutes * 60 * DATE_SECOND,
                                .count = 2};
    for (size_t t = 0; t < rows; t++) {
        char date[DATE_TEXT];
        assert_true(calendar_date(&calendar, t, date));
        used += (size_t)sprintf(text + used, "%s,%zu,%zu,%g\n", date, t, t % 7 * (t % 7),
                                t < constant ? 5.0 : (double)t);
    }
    folder_put(folder, "table.csv", text, used);
    free(text);
}

struct loaded {
    struct task_facts facts;
    struct dataset data;
    struct calendar calendar;
    size_t first;
};

static hashattn_status load(struct folder *folder, const char *settings, enum split split,
                            struct loaded *loaded)
{
    const struct task *task = task_find("forecast");
    struct task_options options = task_options_of("forecast", settings);
    *loaded = (struct loaded){.first = 0};
    TRY(task->facts(&folder->host, &options, folder->path, NULL, &loaded->facts));
    hashattn_status status = task->load_dated(&folder->host, &options, &loaded->facts, folder->path, split,
                                              &loaded->data, &loaded->calendar, &loaded->first);
    if (status != HASHATTN_OK)
        task_facts_free(&folder->host, &loaded->facts);
    return status;
}

static void unload(struct folder *folder, struct loaded *loaded)
{
    dataset_free(&folder->host, &loaded->data);
    task_facts_free(&folder->host, &loaded->facts);
}

static void columns_are_standardised_by_the_training_part(void **state)
{
    struct folder *folder = *state;
    struct loaded l;
    put_table(folder, 200, 60, 150);
    check_status(&folder->host, load(folder, "seq_len=10 horizon=5 patch_len=5 level=none", SPLIT_TRAIN, &l),
                 HASHATTN_OK, NULL);
    double n = 140, squares = 0; /* 0.7 of 200 */
    for (size_t t = 0; t < 140; t++)
        squares += ((double)t - 69.5) * ((double)t - 69.5);
    assert_int_equal(l.facts.num_columns, 3);
    assert_string_equal(l.facts.columns[2].name, "z");
    check_near(l.facts.columns[0].mean, 69.5, 1e-12, "mean");
    check_near(l.facts.columns[0].deviation, sqrt(squares / n), 1e-10, "deviation");
    check_near(l.facts.columns[2].mean, 5, 0, "mean of a constant");
    check_near(l.facts.columns[2].deviation, 1, 0, "deviation of a constant");
    float rows[10], target[5];
    windows_read(&l.data.windows, 3 * 4, rows); /* window 4 of x */
    windows_ask(&l.data.windows, 3 * 4, target);
    for (size_t t = 0; t < 15; t++)
        check_near((double)(t < 10 ? rows[t] : target[t - 10]), ((double)(4 + t) - 69.5) / sqrt(squares / n),
                   1e-6, "a standardised value");
    windows_read(&l.data.windows, 3 * 4 + 2, rows);
    check_near((double)rows[0], 0, 0, "a constant");
    unload(folder, &l);
}

static void options_shape_rows_and_targets(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *settings, *objective;
        size_t row_width, max_len, outputs, columns, examples; /* per window */
        enum level level;
    } cases[] = {
        {"", "horizon", 6, 2, 4, 3, 3, LEVEL_LAST},
        {"stride=3", "horizon", 6, 3, 4, 3, 3, LEVEL_LAST},
        {"level=mean", "horizon", 6, 2, 4, 3, 3, LEVEL_MEAN},
        {"input=joint", "horizon", 18, 2, 12, 3, 1, LEVEL_LAST},
        {"features=S", "horizon", 6, 2, 4, 1, 1, LEVEL_LAST},
        {"features=S input=joint", "horizon", 6, 2, 4, 1, 1, LEVEL_LAST},
        {"features=MS", "horizon", 18, 2, 4, 3, 1, LEVEL_LAST},
        {"model=dlinear", "dlinear", 12, 1, 4, 3, 3, LEVEL_NONE},
        {"model=dlinear level=last", "dlinear", 12, 1, 4, 3, 3, LEVEL_LAST},
        {"model=dlinear features=MS", "dlinear", 12, 1, 4, 1, 1, LEVEL_NONE},
        {"model=last input=joint", "naive", 12, 1, 4, 3, 3, LEVEL_LAST},
        {"model=seasonal season=6", "naive", 12, 1, 4, 3, 3, LEVEL_SEASONAL},
    };
    put_table(folder, 100, 60, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded l;
        char settings[150];
        snprintf(settings, sizeof settings, "seq_len=12 horizon=4 patch_len=6 target=y %s",
                 cases[i].settings);
        check_status(&folder->host, load(folder, settings, SPLIT_TEST, &l), HASHATTN_OK, NULL);
        assert_string_equal(l.facts.objectives[0].name, cases[i].objective);
        assert_int_equal(l.facts.objectives[0].num_outputs, cases[i].outputs);
        assert_int_equal(l.facts.row_width, cases[i].row_width);
        assert_int_equal(l.facts.max_len, cases[i].max_len);
        assert_int_equal(l.facts.num_columns, cases[i].columns);
        assert_string_equal(l.facts.columns[cases[i].columns - 1].name, "y"); /* the target is last */
        assert_int_equal(l.data.count, cases[i].examples * l.data.windows.count);
        assert_int_equal(l.data.targets[0].width, cases[i].outputs);
        assert_int_equal(l.data.windows.level, cases[i].level);
        if (cases[i].outputs == 4 && cases[i].examples == 1)
            assert_int_equal(windows_place(&l.data.windows, 0).column, cases[i].columns - 1);
        unload(folder, &l);
    }
}

static void seasons_follow_from_the_dates(void **state)
{
    struct folder *folder = *state;
    static const struct {
        size_t minutes, season;
        const char *settings;
    } cases[] = {{60, 24, ""}, {30, 48, ""}, {1440, 7, ""}, {60, 13, "season=13"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded l;
        char settings[150];
        snprintf(settings, sizeof settings, "model=seasonal seq_len=50 horizon=4 %s", cases[i].settings);
        put_table(folder, 200, cases[i].minutes, 0);
        check_status(&folder->host, load(folder, settings, SPLIT_TRAIN, &l), HASHATTN_OK, NULL);
        assert_int_equal(l.data.windows.season, cases[i].season);
        unload(folder, &l);
    }
    folder_put_text(folder, "table.csv",
                    "date,x\n2000-01-01,1\n2000-04-01,2\n2000-07-01,3\n2000-10-01,4\n2001-01-01,5\n"
                    "2001-04-01,6\n2001-07-01,7\n2001-10-01,8\n2002-01-01,9\n2002-04-01,10\n");
    struct loaded l;
    check_status(&folder->host, load(folder, "model=seasonal seq_len=4 horizon=1", SPLIT_TRAIN, &l),
                 HASHATTN_OK, NULL);
    assert_int_equal(l.data.windows.season, 4);
    unload(folder, &l);
}

/* Without seq_len; another file is read with the rows that the run has found. */
static void short_files_have_short_windows(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("forecast");
    static const struct {
        size_t rows;
        const char *settings;
        size_t length;
    } cases[] = {
        {200, "horizon=12", 96},                       /* 140 rows of training */
        {144, "horizon=4", 96},                        /* 100 */
        {144, "horizon=5", 40},                        /* 47, in patches of 8 */
        {144, "horizon=12", 40},                       /* 44 */
        {144, "horizon=12 patch_len=10 stride=3", 43}, /* 10 + 11 * 3 */
        {144, "horizon=12 input=joint", 40},
        {144, "horizon=12 features=MS target=y", 40},
        {144, "horizon=12 model=dlinear", 44},
        {144, "horizon=12 model=last", 44},
        {144, "horizon=12 model=seasonal season=60", 60},
        {20, "horizon=2 patch_len=9", 9}, /* 14 rows: 6 are less than a patch */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct task_options options = task_options_of("forecast", cases[i].settings);
        struct loaded l;
        put_table(folder, cases[i].rows, 60, 0);
        check_status(&folder->host, load(folder, cases[i].settings, SPLIT_TEST, &l), HASHATTN_OK, NULL);
        assert_int_equal(l.data.windows.length, cases[i].length);
        dataset_free(&folder->host, &l.data);
        put_table(folder, 300, 60, 0);
        check_status(&folder->host,
                     task->load_dated(&folder->host, &options, &l.facts, folder->path, SPLIT_TEST, &l.data,
                                      &l.calendar, &l.first),
                     HASHATTN_OK, NULL);
        assert_int_equal(l.data.windows.length, cases[i].length);
        unload(folder, &l);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *settings;
        hashattn_status status;
        const char *part;
    } cases[] = {
        {"horizon=101", HASHATTN_BAD_FILE, "table.csv: a forecast has 101 rows (horizon), the file has 100"},
        {"seq_len=60 horizon=11 patch_len=6", HASHATTN_BAD_FILE,
         "a forecast reads 60 rows (seq_len) and has 11 (horizon), the training part has 70 of 100 rows"},
        {"seq_len=8 horizon=11", HASHATTN_BAD_FILE,
         "a forecast has 11 rows (horizon), the validation part has 10 of 100"},
        {"seq_len=8 horizon=11 test_share=0.1", HASHATTN_BAD_FILE,
         "a forecast has 11 rows (horizon), the test part has 10 of 100"},
        {"train_share=0.9", HASHATTN_BAD_FILE,
         "shares of 0.9 for training (train_share) and 0.2 for the test (test_share) leave nothing of 100 "
         "rows"},
        {"split_by=months", HASHATTN_BAD_FILE,
         "100 rows, the 12, 4 and 4 months of split_by months have 14400"},
        {"seq_len=10 horizon=1", HASHATTN_INVALID,
         "patches of 8 rows every 8 rows do not end with the 10 rows"},
        {"seq_len=7 horizon=1", HASHATTN_INVALID, "patches of 8 rows"},
        {"level=seasonal patch_len=1 seq_len=23 horizon=1", HASHATTN_INVALID,
         "a season has 24 rows, seq_len has 23"},
        {"target=w", HASHATTN_BAD_FILE, "line 1: no column 'w' (target)"},
        {"columns=x,y,2", HASHATTN_BAD_FILE, "table.csv: line 1: columns has column 'x' twice"},
        {"quantiles=0.9,0.1", HASHATTN_INVALID,
         "quantiles is '0.9,0.1', whose level 2 is 0.1; levels must ascend, from above 0 to below 1"},
        {"quantiles=0.1,0.1", HASHATTN_INVALID, "whose level 2 is 0.1"},
        {"quantiles=0,0.5", HASHATTN_INVALID, "whose level 1 is 0;"},
        {"quantiles=0.5,1", HASHATTN_INVALID, "whose level 2 is 1;"},
    };
    struct loaded l;
    put_table(folder, 100, 60, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_status(&folder->host, load(folder, cases[i].settings, SPLIT_TRAIN, &l), cases[i].status,
                     cases[i].part);
    put_table(folder, 100, 7 * 60, 0);
    check_status(&folder->host, load(folder, "split_by=months", SPLIT_TRAIN, &l), HASHATTN_BAD_FILE,
                 "rows that divide a day");
    check_status(&folder->host, load(folder, "model=seasonal", SPLIT_TRAIN, &l), HASHATTN_BAD_FILE,
                 "the dates tell no season");
    folder_put_text(folder, "other.csv", "date,x\n");
    check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &l), HASHATTN_BAD_FILE,
                 "other.csv: the file has no row, at least 2 rows are needed");
    folder_remove(folder, "other.csv");
    folder_remove(folder, "table.csv");
    check_status(&folder->host, load(folder, "", SPLIT_TRAIN, &l), HASHATTN_BAD_FILE, "has no .csv file");
}

/* A trained model reads its columns from a file with others, in another order, and needs only one window. */
static void a_new_file_is_read_as_in_training(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("forecast");
    struct task_options options = task_options_of("forecast", "seq_len=4 horizon=3 patch_len=2 level=none");
    struct loaded l;
    put_table(folder, 100, 60, 0);
    check_status(&folder->host, load(folder, "seq_len=4 horizon=3 patch_len=2 level=none", SPLIT_TRAIN, &l),
                 HASHATTN_OK, NULL);
    dataset_free(&folder->host, &l.data);
    folder_put_text(folder, "table.csv",
                    "z,text,y,x,date\n1,a,2,3,2030-01-01\n4,b,5,6,2030-01-01 01:00\n"
                    "7,c,8,9,2030-01-01 02:00\n10,d,11,12,2030-01-01 03:00\n13,e,14,15,2030-01-01 04:00\n");
    check_status(&folder->host,
                 task->load_dated(&folder->host, &options, &l.facts, folder->path, SPLIT_COUNT, &l.data,
                                  &l.calendar, &l.first),
                 HASHATTN_OK, NULL);
    char text[DATE_TEXT];
    assert_true(calendar_date(&l.calendar, l.first + 4, text) && l.data.count == 3 && l.first == 1);
    assert_string_equal(text, "2030-01-01 05:00");
    float rows[4];
    windows_read(&l.data.windows, 0, rows);
    check_near((double)rows[3], (15 - l.facts.columns[0].mean) / l.facts.columns[0].deviation, 1e-6,
               "the last value of x");
    dataset_free(&folder->host, &l.data);
    folder_put_text(folder, "table.csv",
                    "date,x,y,z\n2030-01-01,1,1,1\n2030-01-02,2,2,2\n2030-01-03,2,2,2\n2030-01-04,2,2,2\n");
    check_status(&folder->host,
                 task->load_dated(&folder->host, &options, &l.facts, folder->path, SPLIT_COUNT, &l.data,
                                  &l.calendar, &l.first),
                 HASHATTN_BAD_FILE,
                 "table.csv: the rows are one period of D apart, the run was trained on h");
    unload(folder, &l);
    folder_put_text(folder, "table.csv", "date,x\n2030-01-01,1\n2030-01-02,2\n");
    l.facts = (struct task_facts){.num_columns = 0};
    check_status(&folder->host,
                 task->load(&folder->host, &options, &l.facts, folder->path, SPLIT_TRAIN, 1, &l.data),
                 HASHATTN_INVALID, "no columns");
}

/* Every file is a series: standardised by its own training part, cut by its own rows, forecast after its own
   end; no window reaches from one into the other. */
static void files_are_series_of_their_own(void **state)
{
    struct folder *folder = *state;
    struct loaded l;
    const char *settings = "seq_len=4 horizon=3 patch_len=2 level=none features=S target=x";
    char text[DATE_TEXT];
    put_table(folder, 100, 60, 0);
    char *other = malloc(50 * 60 + 20);
    size_t used = (size_t)sprintf(other, "date,x\n");
    for (size_t t = 0; t < 50; t++)
        used +=
            (size_t)sprintf(other + used, "1970-01-0%zu %02zu:00:00,%zu\n", 2 + t / 24, t % 24, 1000 + 2 * t);
    folder_put(folder, "north.csv", other, used);
    free(other);
    check_status(&folder->host, load(folder, settings, SPLIT_TRAIN, &l), HASHATTN_OK, NULL);
    assert_true(l.facts.num_series == 2 && l.facts.num_columns == 2);
    assert_string_equal(l.facts.series[0], "north");
    check_near(l.facts.columns[0].mean, 1000 + 34, 1e-9, "the mean of the first 35 rows of north");
    check_near(l.facts.columns[1].mean, 34.5, 1e-9, "the mean of the first 70 rows of table");
    assert_int_equal(l.data.windows.count, (35 - 6) + (70 - 6));
    float target[3], rows[4];
    windows_read(&l.data.windows, 35 - 6, rows); /* the first of table */
    check_near((double)rows[0], -34.5 / l.facts.columns[1].deviation, 1e-6, "standardised by its own series");
    for (size_t w = 0; w < l.data.windows.count; w++) {
        windows_ask(&l.data.windows, w, target);
        windows_read(&l.data.windows, w, rows);
        if (!(rows[0] < rows[3] && rows[3] < target[2]))
            fail_msg("window %zu reaches from one series into the other", w);
    }
    unload(folder, &l);
    check_status(&folder->host, load(folder, settings, SPLIT_COUNT, &l), HASHATTN_OK, NULL);
    const struct windows *windows = &l.data.windows;
    assert_true(windows->count == 2 && windows->origins[0].series == 0 && windows->origins[1].series == 1);
    assert_true(calendar_date(&l.calendar, windows->origins[0].row + 4, text));
    assert_string_equal(text, "1970-01-04 02:00:00");
    assert_true(calendar_date(&l.calendar, windows->origins[1].row + 4, text));
    assert_string_equal(text, "1970-01-05 04:00:00");
    windows_ask(windows, 0, target);
    assert_true(target[0] == 0 && target[2] == 0); /* not the next series */
    unload(folder, &l);
    check_status(
        &folder->host,
        load(folder, "seq_len=4 horizon=3 model=informer label_len=2 features=S target=x", SPLIT_TRAIN, &l),
        HASHATTN_INVALID, "model informer reads one series, the data have 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(columns_are_standardised_by_the_training_part, folder_enter,
                                        folder_leave),
        cmocka_unit_test_setup_teardown(options_shape_rows_and_targets, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(seasons_follow_from_the_dates, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(short_files_have_short_windows, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(files_are_series_of_their_own, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_new_file_is_read_as_in_training, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
