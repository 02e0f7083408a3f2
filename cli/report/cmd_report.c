/* `report`: runs and results as one HTML page that loads nothing. A run that cannot be read gets a row that
   says why; a file of results that cannot be read is an error.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/report/report.h"
#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/pictures/html.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/tool.h"

struct report {
    hashattn_context *context;
    const struct text_list *bench;
    int figures; /* of the YOSO paper */
    struct report_run *runs;
    size_t num_runs, num_results; /* num_results: files */
    struct report_groups groups;
    struct results results;
};

/* What the page is about: "3 runs, 1 result, figures of the YOSO paper". Only what there is. */
static const char *contents(const struct report *report, char *text, size_t size)
{
    size_t used = 0;
    const struct {
        size_t count;
        const char *name;
    } parts[] = {{report->num_runs, "run"}, {report->num_results, "result"}};
    text[0] = '\0';
    for (size_t i = 0; i < 2; i++)
        if (parts[i].count > 0)
            used += (size_t)snprintf(text + used, size - used, "%s%zu %s%s", used > 0 ? ", " : "",
                                     parts[i].count, parts[i].name, parts[i].count == 1 ? "" : "s");
    if (report->figures)
        snprintf(text + used, size - used, "%sfigures of the YOSO paper", used > 0 ? ", " : "");
    return text;
}

/* ---- the page ------------------------------------------------------------------------------------------ */

static void write_part(FILE *page, const char *id, const char *heading, struct results_part *part,
                       bool figures)
{
    fflush(part->to);
    if (part->size == 0)
        return;
    html_section(page, id, heading);
    fputs(figures ? "<div class=\"figures\">\n" : "", page);
    fwrite(part->text, 1, part->size, page);
    fputs(figures ? "</div>\n" : "", page);
    html_section_end(page);
}

static void write_plots(FILE *page, struct results *results)
{
    size_t points = 0;
    for (size_t i = 0; i < NUM_RESULTS_PLOTS; i++)
        points += plot_points(&results->plots[i]);
    if (points == 0)
        return;
    html_section(page, "cost", "Time, memory and error");
    fputs("<div class=\"figures\">\n", page);
    for (size_t i = 0; i < NUM_RESULTS_PLOTS; i++) {
        plot_sort(&results->plots[i]);
        plot_write(page, &results->plots[i], report_most_points(results->plots[i].count), ++results->figures);
    }
    fputs("</div>\n", page);
    html_section_end(page);
}

static void write_machine(FILE *page, struct report *report)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(report->context, &is);
    html_section(page, "machines", "Machines");
    if (report->num_runs > 0) {
        html_sorted_table(page, "What computed the runs");
        fputs("<thead><tr><th scope=\"col\" class=\"t\">run<th scope=\"col\" class=\"t\">instruction set<th "
              "scope=\"col\" class=\"t\">products<th scope=\"col\" class=\"t\">precision<th "
              "scope=\"col\">threads<th "
              "scope=\"col\">resumed (times)</thead><tbody>\n",
              page);
        for (size_t i = 0; i < report->num_runs; i++) {
            const struct report_run *run = &report->runs[i];
            const char *const texts[] = {run->isa, run->product, run->precision};
            fputs("<tr><th scope=\"row\">", page);
            html_text(page, run->name);
            for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
                fputs("<td class=\"t\">", page);
                html_text(page, *texts[k] != '\0' ? texts[k] : "-");
            }
            fputs("<td>", page);
            html_number(page, run->threads);
            fprintf(page, "<td>%zu\n", run->resumes);
        }
        fputs("</tbody>", page);
        html_table_end(page);
    }
    fputs("<p class=\"muted\">This page was made by hashattn ", page);
    html_text(page, is.version);
    fputs(" on ", page);
    html_text(page, is.processor[0] != '\0' ? is.processor : "an unknown processor");
    fprintf(page, ", %d thread%s.</p>\n", is.threads, is.threads == 1 ? "" : "s");
    fflush(report->results.machines.to);
    if (report->results.machines.size > 0)
        fwrite(report->results.machines.text, 1, report->results.machines.size, page);
    html_section_end(page);
}

static void write_commands(FILE *page, const struct report *report)
{
    html_section(page, "commands", "Commands");
    fputs("<p>Each of them repeats its run. Options at their defaults are left out.</p>\n<pre>", page);
    for (size_t i = 0; i < report->num_runs; i++)
        if (report->runs[i].config != NULL) {
            report_write_command(page, report->context, &report->runs[i]);
            fputc('\n', page);
        }
    fputs("</pre>\n", page);
    html_section_end(page);
}

/* Those of many runs are folded away. */
static void write_confusions(struct report *report)
{
    FILE *page = report->results.confusions.to;
    size_t matrices = 0;
    for (size_t i = 0; i < report->num_runs; i++)
        matrices += report->runs[i].confusion.classes > 0;
    if (matrices > REPORT_FEW)
        fprintf(page, "<details class=\"folded\"><summary>%zu matrices</summary><div class=\"figures\">\n",
                matrices);
    for (size_t i = 0; i < report->num_runs; i++) {
        const struct report_run *run = &report->runs[i];
        char title[2 * PLOT_NAME];
        snprintf(title, sizeof title, "%.180s (%.150s), validation", run->name,
                 report->groups.models[report->groups.members[i].model].name);
        report_write_confusion(page, title, &run->confusion,
                               hashattn_value_find(run->config, "task.facts.labels"));
    }
    if (matrices > REPORT_FEW)
        fputs("</div></details>\n", page);
}

static int write_figures(FILE *page, struct report *report)
{
    if (!report->figures)
        return EXIT_GOOD;
    html_section(page, "yoso", "Figures of the YOSO paper, from made inputs");
    fputs("<div class=\"figures\">\n", page);
    int code = report_write_yoso(page, report->context, &report->results.figures);
    fputs("</div>\n", page);
    html_section_end(page);
    return code;
}

/* Returns an exit code, with the message printed. */
static int write_page(FILE *page, struct report *report)
{
    char subtitle[200], about[120], date[40] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    snprintf(subtitle, sizeof subtitle, "%s; %s", contents(report, about, sizeof about), date);
    bool good = true;
    html_begin(page, "hashattn report", subtitle);
    if (report->num_runs > 0) {
        html_section(page, "summary", "Summary");
        good = report_write_models(page, report->runs, report->num_runs, &report->groups);
        report_write_summary(page, report->runs, report->num_runs, &report->groups);
        html_section_end(page);
        html_section(page, "curves", "Training");
        good &= report_write_curves(page, report->runs, report->num_runs, &report->groups,
                                    &report->results.figures);
        html_section_end(page);
    }
    write_plots(page, &report->results);
    int code = write_figures(page, report);
    write_part(page, "buckets", "Buckets", &report->results.buckets, true);
    write_confusions(report);
    write_part(page, "confusion", "Confusion matrices", &report->results.confusions, true);
    write_part(page, "tables", "Other results", &report->results.tables, false);
    write_machine(page, report);
    if (report->num_runs > 0)
        write_commands(page, report);
    html_end(page);
    return good ? code : tool_fail(EXIT_RESOURCE, "no memory for the page");
}

static int save(struct report *report, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *page = open_memstream(&text, &size);
    int code = page == NULL ? tool_fail(EXIT_RESOURCE, "no memory for the page") : write_page(page, report);
    if (page != NULL && fclose(page) != 0 && code == EXIT_GOOD)
        code = tool_fail(EXIT_RESOURCE, "no memory for the page");
    hashattn_file *file;
    if (code == EXIT_GOOD) {
        hashattn_status status = hashattn_file_begin(report->context, path, &file);
        if (status == HASHATTN_OK) {
            hashattn_file_write(file, text, size);
            status = hashattn_file_commit(file);
        }
        code = status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(report->context, status);
    }
    free(text);
    return code;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static bool is_file(const char *path)
{
    struct stat facts;
    return strcmp(path, "-") == 0 || (stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode));
}

static int read_all(struct report *report, const struct options *options)
{
    int code = EXIT_GOOD;
    for (size_t i = 0; i < report->bench->count && code == EXIT_GOOD; i++, report->num_results++)
        code = results_read(report->context, report->bench->items[i], &report->results);
    for (size_t i = 0; i < options->num_operands && code == EXIT_GOOD; i++) {
        const char *path = options->operands[i];
        if (is_file(path)) {
            code = results_read(report->context, path, &report->results);
            report->num_results++;
            continue;
        }
        struct report_run *run = &report->runs[report->num_runs++];
        report_run_read(report->context, path, run);
        if (run->no_memory)
            code = tool_fail(EXIT_RESOURCE, "no memory for the log of %s", path);
        if (!run->good && !options->common.quiet)
            tool_line(stderr, "%s: %s", path, run->state);
    }
    return code;
}

static void print_json(const struct report *report, const char *out)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "page", out);
    json_out_array(&json, "runs");
    for (size_t i = 0; i < report->num_runs; i++) {
        const struct report_run *run = &report->runs[i];
        const struct report_member *member = &report->groups.members[i];
        json_out_object(&json, NULL);
        json_out_text(&json, "run", run->path);
        json_out_text(&json, "task", report->groups.tasks[member->task].name);
        json_out_text(&json, "model", report->groups.models[member->model].name);
        json_out_text(&json, "state", run->state);
        json_out_end_object(&json);
    }
    json_out_end_array(&json);
    json_out_count(&json, "results", report->num_results);
    json_out_end_object(&json);
}

static int make(const struct options *options, const struct text_list *bench, int figures, const char *out,
                hashattn_context *context)
{
    struct report report = {.context = context, .bench = bench, .figures = figures};
    report.runs = calloc(options->num_operands + 1, sizeof *report.runs);
    int code = report.runs != NULL && results_begin(&report.results)
                   ? read_all(&report, options)
                   : tool_fail(EXIT_RESOURCE, "no memory for the report");
    if (code == EXIT_GOOD && !report_name_runs(report.runs, report.num_runs))
        code = tool_fail(EXIT_RESOURCE, "no memory for the report");
    if (code == EXIT_GOOD && !report_group_runs(context, report.runs, report.num_runs, &report.groups))
        code = tool_fail(EXIT_RESOURCE, "no memory for the report");
    if (code == EXIT_GOOD)
        code = save(&report, out);
    char about[120];
    if (code == EXIT_GOOD && options->common.json)
        print_json(&report, out);
    else if (code == EXIT_GOOD && !options->common.quiet && strcmp(out, "-") != 0)
        tool_line(stderr, "%s: %s", out, contents(&report, about, sizeof about));
    for (size_t i = 0; i < report.num_runs; i++)
        report_run_free(&report.runs[i]);
    free(report.runs);
    report_groups_free(&report.groups);
    results_free(&report.results);
    return code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct text_list bench = {.count = 0};
    const char *out = NULL;
    int code, figures = 0;
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "report.html", "page to write (- for stdout)");
    options_add_list(&options, "bench", &bench, "FILE.json",
                     "results of bench, eval or inspect with --json, or of bench/peers.py; may be repeated. "
                     "Operands that are files are results too");
    options_add_switch(&options, "figures", &figures,
                       "draw figures 1, 2 and 6 of the YOSO paper from made inputs: attention on the sphere, "
                       "its weights, attention matrices");
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands == 0 && bench.count == 0 && !figures)
        return options_fail(&options, "report needs at least one run, --bench FILE.json or --figures");
    if (out == NULL)
        return options_fail(&options, "report needs --out FILE");
    if (options.common.json && strcmp(out, "-") == 0)
        return options_fail(&options, "--json writes to stdout, so --out must name a file");
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", out, options.operands, options.num_operands);
    for (size_t i = 0; i < options.num_operands && code == EXIT_GOOD; i++)
        code = outputs_check_model("out", out, options.operands[i]);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", out, bench.items, bench.count);
    if (code == EXIT_GOOD)
        code = outputs_check_file(out);
    if (code == EXIT_GOOD)
        code = make(&options, &bench, figures, out, context);
    tool_close(context);
    return code == EXIT_GOOD ? tool_finish() : code;
}

const struct command command_report = {
    .name = "report",
    .operands = "RUN...",
    .summary = "Writes one HTML page about runs and results: tables, curves, time, memory, error, confusion",
    .example = "  hashattn data needle --out needles --train 2000 --valid 200 --seq-len 128 --marks 8\n"
               "  hashattn train needle --data needles --steps 20 --eval-every 10 --out run\n"
               "  hashattn bench attention --seq-len 512 --json > bench.json\n"
               "  hashattn report run --bench bench.json --out report.html\n",
    .run = run,
};
