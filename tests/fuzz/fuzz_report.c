/* Any bytes as a file of `report`: the first byte says whether the rest is a log (L), a config.json (C) or
   results. The page is UTF-8 without markup of the file: no control characters, one head, no script.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"
#include "io/utf8.h"
#include "support/silent_tool.h"

static hashattn_context *context;

static void drop_context(void)
{
    hashattn_context_free(context);
}

static void open_context(void)
{
    char message[200];
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = 1;
    FUZZ_CHECK(hashattn_context_new(&options, message, sizeof message, &context) == HASHATTN_OK);
    FUZZ_CHECK(atexit(drop_context) == 0);
}

static void check_page(const char *text, size_t size)
{
    struct host host;
    host_init(&host);
    FUZZ_CHECK(utf8_check(&host, text, size) == HASHATTN_OK);
    for (size_t i = 0; i < size; i++)
        FUZZ_CHECK((unsigned char)text[i] >= 0x20 || text[i] == '\n' || text[i] == '\t');
    FUZZ_CHECK(strstr(text, "<script") == NULL && strstr(text, "<img") == NULL);
    for (const char *path = text; (path = strstr(path, " d=\"")) != NULL; path++)
        FUZZ_CHECK(path[4 + strspn(path + 4, "MLHVhvz0123456789.- ")] == '"');
}

static void read_run(const uint8_t *data, size_t size)
{
    static const char config[] =
        "{\"format\": \"hashattn run\", \"version\": 2, \"task\": {\"name\": \"needle\", \"options\": {}, "
        "\"facts\": {\"labels\": [\"<img>\", \"b\"]}}, \"model\": {\"dim\": 16}, \"attention\": {\"name\": "
        "\"yoso\", "
        "\"options\": {\"num_hashes\": 8}}, \"training\": {\"steps\": 30, \"seed\": 1}, \"data\": \"d\"}";
    static const char log[] = "{\"step\": 10, \"loss\": 0.5, \"seconds\": 1}\n";
    bool is_log = *data == 'L';
    fuzz_file("config.json", is_log ? config : (const char *)data + 1, is_log ? sizeof config - 1 : size - 1);
    fuzz_file("log.jsonl", is_log ? (const char *)data + 1 : log, is_log ? size - 1 : sizeof log - 1);
    struct report_run run;
    struct report_groups groups;
    char *text;
    size_t length, figures = 0;
    FILE *page = open_memstream(&text, &length);
    report_run_read(context, fuzz_directory, &run);
    FUZZ_CHECK(run.state[0] != '\0' && !run.no_memory && run.num_curves <= REPORT_CURVES);
    FUZZ_CHECK(report_name_runs(&run, 1));
    FUZZ_CHECK(report_group_runs(context, &run, 1, &groups));
    FUZZ_CHECK(groups.num_tasks == 1 && groups.num_models == 1 && groups.tasks[0].runs == 1);
    FUZZ_CHECK(report_write_models(page, &run, 1, &groups));
    report_write_summary(page, &run, 1, &groups);
    FUZZ_CHECK(report_write_curves(page, &run, 1, &groups, &figures));
    report_groups_free(&groups);
    report_write_confusion(page, run.name, &run.confusion,
                           hashattn_value_find(run.config, "task.facts.labels"));
    if (run.config != NULL)
        report_write_command(page, context, &run);
    FUZZ_CHECK(fclose(page) == 0);
    check_page(text, length);
    free(text);
    report_run_free(&run);
}

static void read_results(const uint8_t *data, size_t size)
{
    struct results results;
    FUZZ_CHECK(results_begin(&results));
    int code = results_read(context, fuzz_file("bench.json", data, size), &results);
    FUZZ_CHECK(code == EXIT_GOOD || code == EXIT_FILE);
    struct results_part *const parts[] = {&results.buckets, &results.confusions, &results.tables,
                                          &results.machines};
    for (size_t i = 0; i < NUM_RESULTS_PLOTS; i++) {
        plot_sort(&results.plots[i]);
        plot_write(parts[0]->to, &results.plots[i], 100, i);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        fflush(parts[i]->to);
        check_page(parts[i]->text, parts[i]->size);
    }
    results_free(&results);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (context == NULL)
        open_context();
    if (size > 0 && (*data == 'L' || *data == 'C'))
        read_run(data, size);
    else
        read_results(data, size);
    return 0;
}
