/* The parts of the page about runs: the summary, the curves, and confusion matrices, which are tables with
   coloured cells. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

static const double MIB = 1 << 20;

size_t report_most_points(size_t series)
{
    enum { ALL = 24000, MOST = 400, LEAST = 16 };
    size_t each = series == 0 ? MOST : ALL / series;
    return each > MOST ? MOST : each < LEAST ? LEAST : each;
}

/* ---- summary ------------------------------------------------------------------------------------------- */

static void write_cell(FILE *page, double number, const char *format)
{
    fputs("<td>", page);
    if (isfinite(number))
        fprintf(page, format, number);
    else
        fputc('-', page);
}

static void write_summary_row(FILE *page, const struct report_run *run)
{
    char number[HASHATTN_NUMBER_TEXT], best[REPORT_KEY + 8];
    fputs("<tr><th scope=\"row\">", page);
    html_text(page, run->name);
    fputs("<td class=\"t\">", page);
    html_text(page, report_run_setting(run, "task.name", number));
    fputs("<td class=\"t\">", page);
    html_text(page, run->attention);
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

void report_write_summary(FILE *page, const struct report_run *runs, size_t count)
{
    static const char *const heads[] = {
        "run",      "task",     "attention",   "state",      "step",       "best (valid)", "loss (valid)",
        "time (s)", "tokens/s", "saved (MiB)", "peak (MiB)", "parameters", "seed"};
    html_table(page, "Summary of the runs");
    fputs("<thead><tr>", page);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fprintf(page, "<th scope=\"col\"%s>%s", i < 4 ? " class=\"t\"" : "", heads[i]);
    fputs("</thead><tbody>\n", page);
    for (size_t i = 0; i < count; i++)
        write_summary_row(page, &runs[i]);
    fputs("</tbody>", page);
    html_table_end(page);
    fputs("<p class=\"muted\">Best: the best model on validation, by the metric that chooses it. Loss: the "
          "last "
          "evaluation. Saved: what attention keeps for the backward pass of the largest batch. Peak: of the "
          "process.</p>\n",
          page);
}

/* ---- curves -------------------------------------------------------------------------------------------- */

static const char *unit_of(const char *metric)
{
    static const char *const units[][2] = {
        {"loss", "nats"},
        {"accuracy", "share"},
        {"f1", "share"},
        {"perplexity", "1"},
        {"bits_per_byte", "bits"},
        {"gradient_norm", "2-norm"},
        {"learning_rate", "per step"},
        {"tokens_per_second", "tokens/s"},
    };
    const char *own = strrchr(metric, '.') != NULL ? strrchr(metric, '.') + 1 : metric;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i][0], own) == 0)
            return units[i][1];
    return "no unit";
}

/* The name of a key in words: "training loss", "validation accuracy". */
static void name_key(const char *key, char words[PLOT_NAME])
{
    bool is_valid = strncmp(key, "valid_", 6) == 0;
    snprintf(words, PLOT_NAME, "%s%s", is_valid ? "validation " : "training ", is_valid ? key + 6 : key);
    for (char *c = words; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
}

static bool is_drawn(const char *key)
{
    static const char *const others[] = {"saved_bytes", "rss_bytes", "valid_seconds", "valid_majority"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0)
            return false;
    return strncmp(key, "best_", 5) != 0 && strncmp(key, "mean_", 5) != 0;
}

/* One figure: this key of all runs over steps, or over time. */
static bool write_curve(FILE *page, const struct report_run *runs, size_t count, const char *key,
                        bool over_time, size_t most, size_t *figures)
{
    char words[PLOT_NAME];
    name_key(key, words);
    struct plot plot = {
        .x = {over_time ? "training time" : "step", over_time ? "s" : "number", PLOT_LINEAR},
        .y = {strchr(words, ' ') + 1, unit_of(strncmp(key, "valid_", 6) == 0 ? key + 6 : key), PLOT_LINEAR}};
    snprintf(plot.title, sizeof plot.title, "%c%.150s over %s", words[0] - 'a' + 'A', words + 1,
             over_time ? "training time" : "steps");
    for (size_t i = 0; i < count; i++) {
        const struct curve *curve = report_run_curve(&runs[i], key);
        char name[PLOT_NAME];
        if (curve == NULL)
            continue;
        snprintf(name, sizeof name, "%.120s (%.70s)", runs[i].name, runs[i].attention);
        size_t series = plot_series_named(&plot, name, i);
        for (size_t k = 0; k < curve->count; k++)
            plot_add(&plot, series, over_time ? curve->points[k].seconds : curve->points[k].step,
                     curve->points[k].value);
    }
    bool good = !plot.no_room;
    if (plot_points(&plot) > 0)
        plot_write(page, &plot, most, ++*figures);
    plot_free(&plot);
    return good;
}

struct key_list {
    const char *keys[REPORT_CURVES];
    size_t count;
};

/* The keys of all runs, in the order of their first appearance: those of evaluations first. */
static struct key_list list_keys(const struct report_run *runs, size_t count)
{
    struct key_list list = {.count = 0};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < runs[i].num_curves; k++) {
                const char *key = runs[i].curves[k].key;
                bool known = (strncmp(key, "valid_", 6) == 0) != (pass == 0) || !is_drawn(key);
                for (size_t j = 0; j < list.count; j++)
                    known |= strcmp(list.keys[j], key) == 0;
                if (!known && list.count < REPORT_CURVES)
                    list.keys[list.count++] = key;
            }
    return list;
}

bool report_write_curves(FILE *page, const struct report_run *runs, size_t count, size_t *figures)
{
    const struct key_list list = list_keys(runs, count);
    size_t most = report_most_points(count * (list.count + 1));
    bool good = true;
    const char *chooser = "";
    for (size_t i = 0; i < count && *chooser == '\0'; i++)
        chooser = runs[i].chooser;
    char chosen[REPORT_KEY + 8];
    snprintf(chosen, sizeof chosen, "valid_%s", chooser);
    fputs("<div class=\"figures\">\n", page);
    good &= write_curve(page, runs, count, chosen, true, most, figures);
    for (size_t i = 0; i < list.count; i++)
        good &= write_curve(page, runs, count, list.keys[i], false, most, figures);
    fputs("</div>\n", page);
    return good;
}

/* ---- confusion ----------------------------------------------------------------------------------------- */

static void write_label(FILE *page, const hashattn_value *labels, size_t index)
{
    char path[24], number[HASHATTN_NUMBER_TEXT];
    snprintf(path, sizeof path, "%zu", index);
    const char *label = hashattn_value_text(hashattn_value_find(labels, path), number);
    html_text(page, label != NULL ? label : path);
}

void report_write_confusion(FILE *page, const char *title, const struct confusion *confusion,
                            const hashattn_value *labels)
{
    size_t classes = confusion->classes;
    if (classes == 0)
        return;
    fprintf(page, "<figure class=\"heat%s\">", classes > 12 ? " many" : "");
    html_table(page, title);
    fputs("<caption>", page);
    html_text(page, title);
    fprintf(page,
            "</caption><thead><tr><th rowspan=\"2\" scope=\"col\" class=\"t\">label<th colspan=\"%zu\" "
            "class=\"t\" scope=\"colgroup\">predicted label (examples)<tr>",
            classes);
    for (size_t k = 0; k < classes; k++) {
        fputs("<th scope=\"col\">", page);
        write_label(page, labels, k);
    }
    fputs("</thead><tbody>\n", page);
    for (size_t i = 0; i < classes; i++) {
        double all = 0;
        for (size_t k = 0; k < classes; k++)
            all += confusion->counts[i * classes + k];
        fputs("<tr><th scope=\"row\">", page);
        write_label(page, labels, i);
        for (size_t k = 0; k < classes; k++) {
            double count = confusion->counts[i * classes + k];
            if (count > 0)
                fprintf(page, "<td style=\"--v:%.2f\">%.0f", count / all, count);
            else
                fputs("<td class=\"z\" style=\"--v:0\">0", page);
        }
        fputc('\n', page);
    }
    fputs("</tbody>", page);
    html_table_end(page);
    fputs("</figure>\n", page);
}
