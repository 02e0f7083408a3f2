/* Forecasts in the units of a file: what was read, the truth and the forecast of every window, each column on
   its own and all columns jointly, with the dates of the file; and the window after its end. The models
   forecast zeros, so that the forecast is the last value of the window.
   Bugs planted and caught: columns exchanged; the deviation left out; the truth of the window before; the
   level not restored; the row of the first window as that of all; a truth after the end; the first column of
   the file for that of the target; examples of the next window.
   Covers: forecast_visit.c
   SPDX-License-Identifier: Apache-2.0 */
#include "train/forecasts/forecast_visit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#include "support/folder.h"
#include "support/layers.h"
#include "support/task_case.h"

enum { ROWS = 60, LENGTH = 8, HORIZON = 3 };

static double cell(size_t row, size_t column)
{
    return (double)(100 * (column + 1)) + (double)(row * row % (31 + 6 * column));
}

static void put_table(struct folder *folder)
{
    char text[ROWS * 60], *at = text + sprintf(text, "a,date,b,c\n");
    for (size_t t = 0; t < ROWS; t++)
        at += sprintf(at, "%g,2020-%02zu-%02zu,%g,%g\n", cell(t, 0), t / 30 + 6, t % 30 + 1, cell(t, 1),
                      cell(t, 2));
    folder_put_text(folder, "table.csv", text);
}

/* What a visit must show. */
struct expected {
    size_t columns, first_row, windows, seen;
    const size_t *of; /* columns of the table */
    bool known;
    size_t stop_after; /* windows; 0: never */
};

static bool check_window(void *user, const struct forecast_window *w, const struct evaluation *result)
{
    assert_true(result->examples > 0);
    struct expected *e = user;
    size_t begin = e->first_row + e->seen;
    char date[DATE_TEXT], want[60];
    assert_true(w->index == e->seen && w->count == e->windows && w->columns == e->columns);
    assert_true(w->length == LENGTH && w->horizon == HORIZON && (w->truth != NULL) == e->known);
    assert_int_equal(w->row, begin);
    for (size_t t = 0; t < LENGTH + HORIZON; t++) {
        if (begin + t < ROWS) {
            size_t day = begin + t;
            snprintf(want, sizeof want, "2020-%02zu-%02zu", day / 30 + 6, day % 30 + 1);
            assert_true(calendar_date(w->calendar, w->row + t, date));
            assert_string_equal(date, want);
        }
        for (size_t c = 0; c < e->columns; c++) {
            size_t of = e->of[c], at = (t < LENGTH ? t : t - LENGTH) * e->columns + c;
            if (t < LENGTH) {
                check_near(w->read[at], cell(begin + t, of), 1e-4, "a value that was read");
                continue;
            }
            check_near(w->forecast[at], cell(begin + LENGTH - 1, of), 1e-4, "a forecast");
            if (e->known)
                check_near(w->truth[at], cell(begin + t, of), 1e-4, "the truth");
        }
    }
    return ++e->seen == e->stop_after;
}

static void check_visits(struct folder *folder, const char *settings, size_t columns, const size_t *of)
{
    struct host *host = &folder->host;
    const struct task *task = task_find("forecast");
    char all[200];
    snprintf(all, sizeof all, "seq_len=8 horizon=3 patch_len=4 %s", settings);
    struct task_options options = task_options_of("forecast", all);
    struct layer_test base;
    struct run_config config;
    struct model *model;
    layer_test_open(&base, 2);
    memset(&config, 0, sizeof config);

    config.task = task;
    config.task_options = &options;
    config.training.batch = 5;
    options_preset(model_options, &config.model);
    check_status(host, head_plan_new(host, "softmax", &config.model.plan), HASHATTN_OK, NULL);
    check_status(host, task->facts(host, &options, folder->path, NULL, &config.facts), HASHATTN_OK, NULL);
    check_status(host, run_config_take_facts(host, &config), HASHATTN_OK, NULL);
    check_status(host, model_new(host, &config.model, &model), HASHATTN_OK, NULL);
    float *values = new_zeros(model_params(model)->total + 1);
    const struct train_setup setup = {.kernels = base.kernels, .pool = base.pool};
    struct session session = {.model = NULL};
    check_status(host, evaluate_open(host, &setup, model, values, &session), HASHATTN_OK, NULL);
    struct expected test = {
        .columns = columns, .of = of, .first_row = 48 - LENGTH, .windows = 10, .known = true};
    check_status(
        host,
        forecast_visit(host, &setup, &config, &session, folder->path, SPLIT_TEST, 1, check_window, &test),
        HASHATTN_OK, NULL);
    assert_int_equal(test.seen, 10);
    struct expected end = {.columns = columns, .of = of, .first_row = ROWS - LENGTH, .windows = 1};
    check_status(
        host,
        forecast_visit(host, &setup, &config, &session, folder->path, SPLIT_COUNT, 1, check_window, &end),
        HASHATTN_OK, NULL);
    assert_int_equal(end.seen, 1);
    test.seen = 0;
    test.stop_after = 3;
    check_status(
        host,
        forecast_visit(host, &setup, &config, &session, folder->path, SPLIT_TEST, 1, check_window, &test),
        HASHATTN_INTERRUPTED, "stopped after window 3 of 10");
    config.task = task_find("needle");
    check_status(
        host,
        forecast_visit(host, &setup, &config, &session, folder->path, SPLIT_TEST, 1, check_window, &test),
        HASHATTN_REFUSED, "needle does not forecast");
    session_close(host, &session);
    free(values);
    model_free(host, model);
    head_plan_free(host, &config.model.plan);
    task_facts_free(host, &config.facts);
    layer_test_close(&base);
}

static void windows_are_shown_in_units(void **state)
{
    struct folder *folder = *state;
    put_table(folder);
    check_visits(folder, "model=last", 3, (const size_t[]){0, 1, 2});
    check_visits(folder, "model=last target=a", 3, (const size_t[]){1, 2, 0});
    check_visits(folder, "", 3, (const size_t[]){0, 1, 2});
    check_visits(folder, "input=joint", 3, (const size_t[]){0, 1, 2});
    check_visits(folder, "features=S target=b", 1, (const size_t[]){1});
    check_visits(folder, "features=MS target=b", 1, (const size_t[]){1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(windows_are_shown_in_units, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
