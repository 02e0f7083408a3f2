/* Forecasts through the public interface: windows of a split and the rows after the end of a file, names,
   dates, a callback that stops, and what is refused.
   Planted and caught: the split taken for the end of the file; another file ignored; the names of all columns
   for that of the target; dates from the first row that was read for those of the forecast; a callback that
   cannot stop.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/tiny_run.h"

/* 40 daily rows from `first` on; b is 10 times a. */
static void put_table(const char *path, int first)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("date,a,b\n", file);
    for (int t = 0; t < 40; t++)
        fprintf(file, "2020-%02d-%02d,%d,%d\n", 1 + t / 31, 1 + t % 31, first + t, 10 * (first + t));
    fclose(file);
}

static hashattn_status train_last(hashattn_context *context)
{
    static const char *const options[][2] = {{"model", "last"},     {"seq_len", "5"}, {"horizon", "2"},
                                             {"features", "S"},     {"steps", "1"},   {"eval_every", "1"},
                                             {"train_share", "0.5"}};
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, "forecast", &setup);
    for (size_t i = 0; i < sizeof options / sizeof *options && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(setup, options[i][0], options[i][1]);
    if (status == HASHATTN_OK)
        status = hashattn_train(setup, "table.csv", "run", NULL, NULL);
    hashattn_setup_free(setup);
    return status;
}

struct seen {
    size_t windows, stop_after;
    double last; /* value that was read last */
    char date[HASHATTN_DATE_TEXT];
    int truths;
};

static int see(void *user, const hashattn_forecast *forecast)
{
    struct seen *seen = user;
    assert_true(forecast->struct_size == sizeof *forecast && forecast->window == seen->windows);
    assert_true(forecast->num_columns == 1 && forecast->num_read == 5 && forecast->horizon == 2);
    assert_string_equal(forecast->columns[0], "b");
    assert_string_equal(forecast->date_column, "date");
    check_near(forecast->deviations[0], 10 * sqrt(399 / 12.0), 1e-9, "20 numbers 10 apart");
    seen->last = forecast->read[4];
    for (int h = 0; h < 2; h++) {
        check_near(forecast->values[h], seen->last, 1e-3, "the last value");
        if (forecast->truth != NULL)
            check_near(forecast->truth[h], seen->last + 10 * (h + 1), 1e-3, "the truth");
    }
    seen->truths += forecast->truth != NULL;
    assert_int_equal(hashattn_forecast_date(forecast, forecast->num_read, seen->date), 1);
    return ++seen->windows == seen->stop_after;
}

static void windows_are_forecast(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    put_table("table.csv", 0);
    put_table("other.csv", 100);
    check_ok(context, train_last(context));
    check_ok(context, hashattn_model_load(context, "run", &model));
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(model, &info);
    assert_true(info.forecasts && !info.predicts && info.num_classes == 2);
    struct seen test = {.windows = 0}, end = test, other = test, stopped = {.stop_after = 2};
    check_ok(context, hashattn_model_forecast(model, NULL, "test", 1, see, &test));
    assert_true(test.windows == 7 && test.truths == 7); /* 8 rows of 40 */
    check_near(test.last, 370, 1e-3, "the last window");
    assert_string_equal(test.date, "2020-02-08");
    check_ok(context, hashattn_model_forecast(model, NULL, NULL, 1, see, &end));
    assert_true(end.windows == 1 && end.truths == 0);
    check_near(end.last, 390, 1e-3, "the end of the file");
    assert_string_equal(end.date, "2020-02-10");
    check_ok(context, hashattn_model_forecast(model, "other.csv", NULL, 1, see, &other));
    check_near(other.last, 1390, 1e-3, "the end of another file");
    check_call(context, hashattn_model_forecast(model, NULL, "test", 1, see, &stopped), HASHATTN_INTERRUPTED,
               "stopped after window 2 of 7");
    check_call(context, hashattn_model_forecast(model, NULL, "tset", 1, see, &end), HASHATTN_INVALID,
               "split is 'tset'");
    check_call(context, hashattn_model_forecast(model, NULL, NULL, 1, NULL, NULL), HASHATTN_INVALID,
               "callback is NULL");
    check_call(context, hashattn_model_forecast(model, "none.csv", NULL, 1, see, &end), HASHATTN_BAD_FILE,
               "none.csv");
    assert_int_equal(hashattn_model_forecast(NULL, NULL, NULL, 1, see, &end), HASHATTN_INVALID);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static hashattn_status forecast_end(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_model *model = NULL;
    struct seen seen = {.windows = 0};
    hashattn_status status = hashattn_model_load(context, "run", &model);
    if (status == HASHATTN_OK)
        status = hashattn_model_forecast(model, NULL, NULL, 1, see, &seen);
    hashattn_model_free(model);
    return status;
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    check_every_failing_allocation(forecast_end, NULL);
}

static int enter(void **state)
{
    (void)state;
    tiny_enter();
    return 0;
}

static int leave(void **state)
{
    (void)state;
    tiny_leave();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_forecast),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
