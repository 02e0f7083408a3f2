/* The table of the runs: a row each.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

static const double MIB = 1 << 20;

static void write_cell(FILE *page, double number, const char *format)
{
    fputs("<td>", page);
    if (isfinite(number))
        fprintf(page, format, number);
    else
        fputc('-', page);
}

static void write_summary_row(FILE *page, const struct report_run *run, const char *model)
{
    char number[HASHATTN_NUMBER_TEXT], best[REPORT_KEY + 8];
    const char *const texts[] = {report_run_setting(run, "task.name", number), run->data, model};
    fputs("<tr><th scope=\"row\">", page);
    html_text(page, run->name);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fputs("<td class=\"t\">", page);
        html_text(page, texts[i]);
    }
    fprintf(page, "<td class=\"w%s\">", run->good ? "" : " bad");
    html_text(page, run->state);
    write_cell(page, run->last_step, "%.0f");
    snprintf(best, sizeof best, "best_%s", run->chooser);
    double value = report_run_last(run, best);
    write_cell(page, value, "%.4f");
    fputs(" ", page);
    html_text(page, isfinite(value) ? run->chooser : "");
    write_cell(page, report_run_last(run, "valid_loss"), "%.4f");
    const struct curve *seconds = report_run_curve(run, "rss_bytes");
    write_cell(page,
               seconds != NULL && seconds->count > 0 ? seconds->points[seconds->count - 1].seconds : NAN,
               "%.1f");
    write_cell(page, report_run_last(run, "tokens_per_second"), "%.0f");
    write_cell(page, report_run_last(run, "saved_bytes") / MIB, "%.2f");
    write_cell(page, report_run_last(run, "rss_bytes") / MIB, "%.0f");
    write_cell(page, run->parameters, "%.0f");
    write_cell(page, hashattn_value_number(hashattn_value_find(run->config, "training.seed")), "%.0f");
    fputc('\n', page);
}

void report_write_summary(FILE *page, const struct report_run *runs, size_t count,
                          const struct report_groups *groups)
{
    static const char *const heads[] = {"run",         "task",         "data",         "model",    "state",
                                        "step",        "best (valid)", "loss (valid)", "time (s)", "tokens/s",
                                        "saved (MiB)", "peak (MiB)",   "parameters",   "seed"};
    fputs("<div class=\"runs\">", page);
    html_sorted_table(page, "Summary of the runs");
    fputs("<thead><tr>", page);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fprintf(page, "<th scope=\"col\"%s>%s", i < 5 ? " class=\"t\"" : "", heads[i]);
    fputs("</thead><tbody>\n", page);
    for (size_t i = 0; i < count; i++)
        write_summary_row(page, &runs[i], groups->models[groups->members[i].model].name);
    fputs("</tbody>", page);
    html_table_end(page);
    fputs("</div>\n<p class=\"muted\">Best: the best model on validation, by the metric that chooses it. "
          "Loss: the "
          "last "
          "evaluation. Saved: what attention keeps for the backward pass of the largest batch. Peak: of the "
          "process.</p>\n",
          page);
}
