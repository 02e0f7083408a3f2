/* The curves of the runs.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

size_t report_most_points(size_t series)
{
    enum { ALL = 24000, MOST = 400, LEAST = 16 };
    size_t each = series == 0 ? MOST : ALL / series;
    return each > MOST ? MOST : each < LEAST ? LEAST : each;
}

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

/* The runs of one task. */
struct task_runs {
    const struct report_run *runs; /* all runs */
    const size_t *list;            /* (count) those of the task */
    size_t all, count;
    const struct report_groups *groups;
    const struct report_task *task;
    bool many;  /* more than REPORT_FEW */
    bool named; /* the page has several tasks */
};

/* Runs that cannot be read have a task without a name, and no curves. */
static bool has_several_tasks(const struct report_groups *groups)
{
    size_t named = 0;
    for (size_t i = 0; i < groups->num_tasks; i++)
        named += groups->tasks[i].name[0] != '\0';
    return named > 1;
}

/* The task before the words, where there are several. */
static void title_figure(const struct task_runs *of, const char *words, const char *over, char *title)
{
    char first = words[0];
    if (of->named)
        snprintf(title, PLOT_NAME, "%.60s: %.100s over %s", of->task->name, words, over);
    else
        snprintf(title, PLOT_NAME, "%c%.100s over %s", first - 'a' + 'A', words + 1, over);
}

/* Lengths of runs of which the longest is many times the shortest are told apart on a logarithmic axis only.
 */
static enum plot_scale scale_of(const struct task_runs *of, const char *key, bool over_time)
{
    enum { MANY_TIMES = 8 };
    double shortest = INFINITY, longest = 0;
    for (size_t i = 0; i < of->count; i++) {
        const struct curve *curve = report_run_curve(&of->runs[of->list[i]], key);
        if (curve == NULL || curve->count == 0)
            continue;
        const struct curve_point *last = &curve->points[curve->count - 1];
        double length = over_time ? last->seconds : last->step;
        if (length > 0) {
            shortest = fmin(shortest, length);
            longest = fmax(longest, length);
        }
    }
    return longest > MANY_TIMES * shortest ? PLOT_LOG10 : PLOT_LINEAR;
}

/* One figure: this key of the task's runs over steps, or over time. With few runs each has its own style,
   with many each model. */
static bool write_curve(FILE *page, const struct task_runs *of, const char *key, bool over_time, size_t most,
                        size_t *figures)
{
    char words[PLOT_NAME];
    name_key(key, words);
    struct plot plot = {
        .x = {over_time ? "training time" : "step", over_time ? "s" : "number", scale_of(of, key, over_time)},
        .y = {strchr(words, ' ') + 1, unit_of(strncmp(key, "valid_", 6) == 0 ? key + 6 : key), PLOT_LINEAR},
        .legend_elsewhere = of->many};
    title_figure(of, words, over_time ? "training time" : "steps", plot.title);
    for (size_t i = 0; i < of->count; i++) {
        size_t run = of->list[i];
        const struct curve *curve = report_run_curve(&of->runs[run], key);
        char name[PLOT_NAME];
        if (curve == NULL)
            continue;
        snprintf(name, sizeof name, "%.90s (%.100s)", of->runs[run].name,
                 of->groups->models[of->groups->members[run].model].name);
        size_t series = plot_series_named(&plot, name, of->many ? of->groups->members[run].model : run);
        for (size_t k = 0; k < curve->count; k++)
            plot_add(&plot, series, over_time ? curve->points[k].seconds : curve->points[k].step,
                     curve->points[k].value);
    }
    bool good = !plot.no_memory;
    if (plot_points(&plot) > 0)
        plot_write(page, &plot, most, ++*figures);
    plot_free(&plot);
    return good;
}

struct key_list {
    const char *keys[REPORT_CURVES];
    size_t count;
};

/* For many runs: the losses, the metric that chooses, and the metrics of mechanisms ("lha.own_loss"). */
static bool is_worth_it(const struct task_runs *of, const char *key)
{
    const char *own = strncmp(key, "valid_", 6) == 0 ? key + 6 : key;
    return !of->many || strcmp(own, "loss") == 0 || strchr(own, '.') != NULL ||
           (own != key && strcmp(own, of->task->chooser) == 0);
}

/* The keys of the task's runs, in the order of their first appearance: those of evaluations first. */
static struct key_list list_keys(const struct task_runs *of)
{
    struct key_list list = {.count = 0};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < of->count; i++)
            for (size_t k = 0; k < of->runs[of->list[i]].num_curves; k++) {
                const char *key = of->runs[of->list[i]].curves[k].key;
                bool known = (strncmp(key, "valid_", 6) == 0) != (pass == 0) || !is_drawn(key) ||
                             !is_worth_it(of, key);
                for (size_t j = 0; j < list.count; j++)
                    known |= strcmp(list.keys[j], key) == 0;
                if (!known && list.count < REPORT_CURVES)
                    list.keys[list.count++] = key;
            }
    return list;
}

/* The legend of all figures of a task: an entry per model. */
static bool write_legend(FILE *page, const struct task_runs *of)
{
    struct plot plot = {.kind = PLOT_LINES};
    for (size_t i = 0; i < of->count; i++) {
        size_t model = of->groups->members[of->list[i]].model;
        if (of->runs[of->list[i]].num_curves > 0)
            plot_series_named(&plot, of->groups->models[model].name, model);
    }
    bool good = !plot.no_memory;
    plot_write_legend(page, &plot, true);
    plot_free(&plot);
    return good;
}

static bool write_task(FILE *page, const struct task_runs *of, size_t *figures)
{
    const struct key_list list = list_keys(of);
    size_t most = report_most_points(of->all * (list.count + 1));
    bool good = true;
    char chosen[REPORT_KEY + 8];
    if (list.count == 0)
        return true;
    if (of->named) {
        fputs("<h3>", page);
        html_text(page, of->task->name);
        fputs("</h3>\n", page);
    }
    fputs("<div class=\"task\">\n", page);
    if (of->many)
        good = write_legend(page, of);
    fputs("<div class=\"figures\">\n", page);
    snprintf(chosen, sizeof chosen, "valid_%s", of->task->chooser);
    good &= write_curve(page, of, chosen, true, most, figures);
    for (size_t i = 0; i < list.count; i++)
        good &= write_curve(page, of, list.keys[i], false, most, figures);
    fputs("</div></div>\n", page);
    return good;
}

bool report_write_curves(FILE *page, const struct report_run *runs, size_t count,
                         const struct report_groups *groups, size_t *figures)
{
    bool good = true, named = has_several_tasks(groups);
    for (size_t i = 0; i < groups->num_tasks; i++) {
        const struct report_task *task = &groups->tasks[i];
        const struct task_runs of = {.runs = runs,
                                     .list = groups->by_task + task->begin,
                                     .all = count,
                                     .count = task->runs,
                                     .groups = groups,
                                     .task = task,
                                     .many = task->runs > REPORT_FEW,
                                     .named = named};
        good &= write_task(page, &of, figures);
    }
    return good;
}
