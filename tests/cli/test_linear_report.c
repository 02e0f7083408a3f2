/* `report` is linear (support/linear_time.h) in what it is given: runs, tasks, lines of a log, results.

   Planted and caught: an option looked up in all runs; the points of a curve read again at each line of the
   log; the curves of all runs compared for each task.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/report/report.h"
#include "support/api_context.h"
#include "support/linear_time.h"
#include "support/silent_tool.h"

static hashattn_context *context;

/* ---- runs ---------------------------------------------------------------------------------------------- */

struct runs {
    struct report_run *list;
    char (*paths)[LINEAR_PATH];
    size_t count;
};

static void drop_runs(struct work *work)
{
    struct runs *runs = work->own;
    for (size_t i = 0; i < runs->count; i++)
        report_run_free(&runs->list[i]);
    free(runs->list);
    free(runs->paths);
    free(runs);
}

/* n runs of a task, with options that differ, or of n tasks; each has logged one step. */
static void read_runs(struct work *work, size_t n, const char *task, bool numbered)
{
    struct runs *runs = calloc(1, sizeof *runs);
    work->own = runs;
    work->drop = drop_runs;
    runs->count = n;
    runs->list = calloc(n, sizeof *runs->list);
    runs->paths = calloc(n, sizeof *runs->paths);
    assert_true(runs->list != NULL && runs->paths != NULL);
    for (size_t i = 0; i < n; i++) {
        char name[40];
        snprintf(name, sizeof name, "%zu", i);
        path_of(work, name, runs->paths[i]);
        assert_int_equal(mkdir(runs->paths[i], 0700), 0);
        put_text(work, "{\"format\": \"hashattn run\", \"version\": 2, \"task\": {\"name\": \"");
        put_text(work, task);
        put_text(work, numbered ? name : "");
        put_number(work, "\"}, \"attention\": {\"name\": \"lha\", \"options\": {\"num_buckets\": ", i + 2,
                   ", \"rounds\": 3}}, \"model\": {\"dropout\": 0.25}, \"training\": {\"steps\": 1}}");
        snprintf(name, sizeof name, "%zu/config.json", i);
        put_file(work, name);
        snprintf(name, sizeof name, "%zu/log.jsonl", i);
        folder_put_text(work->folder, name, "{\"step\": 1, \"seconds\": 1, \"loss\": 0.5}\n");
        report_run_read(context, runs->paths[i], &runs->list[i]);
        assert_string_equal(runs->list[i].state, "finished");
    }
}

static void make_runs(struct work *work, size_t n)
{
    read_runs(work, n, "needle", false);
}

static void make_tasks(struct work *work, size_t n)
{
    read_runs(work, n, "task", true);
}

static void write_runs(struct work *work, bool one_task)
{
    struct runs *runs = work->own;
    struct report_groups groups;
    size_t figures = 0, count = runs->count;
    FILE *page = fopen("/dev/null", "w");
    assert_non_null(page);
    assert_true(report_name_runs(runs->list, count));
    assert_true(report_group_runs(context, runs->list, count, &groups));
    assert_int_equal(groups.num_tasks, one_task ? 1 : count);
    assert_true(groups.num_models == (one_task ? count : 1) || !one_task);
    assert_true(!one_task || report_write_models(page, runs->list, count, &groups)); /* models by tasks */
    report_write_summary(page, runs->list, count, &groups);
    assert_true(report_write_curves(page, runs->list, count, &groups, &figures));
    assert_true(figures >= groups.num_tasks);
    report_groups_free(&groups);
    fclose(page);
}

static void write_task(struct work *work)
{
    write_runs(work, true);
}

static void write_tasks(struct work *work)
{
    write_runs(work, false);
}

/* ---- files --------------------------------------------------------------------------------------------- */

static void make_log(struct work *work, size_t n)
{
    folder_put_text(work->folder, "config.json",
                    "{\"format\": \"hashattn run\", \"version\": 2, \"training\": {\"steps\": 1}}");
    for (size_t i = 0; i < n; i++)
        put_number(work, "{\"step\": ", i, ", \"seconds\": 1, \"loss\": 0.5, \"best_loss\": null}\n");
    put_file(work, "log.jsonl");
}

static void read_log(struct work *work)
{
    struct report_run run;
    report_run_read(context, work->folder->path, &run);
    assert_true(run.finished && run.num_curves == 2);
    report_run_free(&run);
}

static void make_results(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, "{\"task\": \"needle\", \"attention\": \"yoso\", \"step_ms\": ", i, "}\n");
    put_file(work, "results.jsonl");
}

static void read_results(struct work *work)
{
    struct results results;
    char path[LINEAR_PATH];
    path_of(work, "results.jsonl", path);
    assert_true(results_begin(&results));
    assert_int_equal(results_read(context, path, &results), EXIT_GOOD);
    results_free(&results);
}

/* ---- the comparison ------------------------------------------------------------------------------------ */

static const struct linear readers[] = {
    {"runs of a task", 2000, make_runs, write_task},
    {"runs of many tasks", 3000, make_tasks, write_tasks},
    {"lines of a log", 16000, make_log, read_log},
    {"results", 12000, make_results, read_results},
};

static void time_grows_as_the_input(void **state)
{
    (void)state;
    context = context_with(1, NULL);
    linear_check_all(readers, sizeof readers / sizeof *readers);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_grows_as_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
