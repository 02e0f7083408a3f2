/* The table of models by tasks: what each reached, over its seeds. Models stand in the order of their names,
   where numbers count as numbers, so that rows do not depend on the order of the runs.
   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

/* The best value on validation of a finished run. */
struct value {
    size_t cell;
    double seed, value;
};

/* Runs of one model and one task: the number of different seeds, mean and standard deviation over them. Runs
   of one seed count once, with their mean. */
struct cell {
    size_t count;
    double mean, squares; /* of distances from the mean (Welford) */
    double deviation;
};

static int compare_values(const void *one, const void *other)
{
    const struct value *a = one, *b = other;
    if (a->cell != b->cell)
        return a->cell < b->cell ? -1 : 1;
    return (a->seed > b->seed) - (a->seed < b->seed);
}

static void add_seed(struct cell *cell, double value)
{
    double before = value - cell->mean;
    cell->mean += before / (double)++cell->count;
    cell->squares += before * (value - cell->mean);
    cell->deviation = cell->count > 1 ? sqrt(cell->squares / (double)(cell->count - 1)) : 0;
}

/* cells: (models, tasks), zeros at first; values: room for one of each run. */
static void sum_up(const struct report_run *runs, size_t count, const struct report_groups *groups,
                   struct cell *cells, struct value *values)
{
    char best[REPORT_KEY + 8];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(best, sizeof best, "best_%s", runs[i].chooser);
        double value = runs[i].finished ? report_run_last(&runs[i], best) : NAN;
        double seed = hashattn_value_number(hashattn_value_find(runs[i].config, "training.seed"));
        if (isfinite(value))
            values[found++] =
                (struct value){groups->members[i].model * groups->num_tasks + groups->members[i].task,
                               isfinite(seed) ? seed : -1, value};
    }
    qsort(values, found, sizeof *values, compare_values);
    for (size_t i = 0, end; i < found; i = end) {
        double sum = 0;
        for (end = i; end < found && compare_values(&values[i], &values[end]) == 0; end++)
            sum += values[end].value;
        add_seed(&cells[values[i].cell], sum / (double)(end - i));
    }
}

static void write_cell(FILE *page, const struct cell *cell, double low, double high)
{
    if (cell->count == 0) {
        fputs("<td>-", page);
        return;
    }
    fprintf(page, "<td style=\"--v:%.2f\">%.4f", high > low ? (cell->mean - low) / (high - low) : 0,
            cell->mean);
    if (cell->count > 1)
        fprintf(page, " &plusmn; %.4f (%zu)", cell->deviation, cell->count);
}

static void write_head(FILE *page, const struct report_groups *groups)
{
    html_sorted_table(page, "Models by tasks");
    fputs("<thead><tr><th scope=\"col\" class=\"t\">model", page);
    for (size_t task = 0; task < groups->num_tasks; task++) {
        if (groups->tasks[task].chooser[0] == '\0')
            continue;
        fputs("<th scope=\"col\">", page);
        html_text(page, groups->tasks[task].name);
        fputs("<br>", page);
        html_text(page, groups->tasks[task].chooser);
    }
    fputs("</thead><tbody>\n", page);
}

struct row {
    const char *name;
    size_t model;
};

/* "num-buckets 8" comes before "num-buckets 16", "dropout 0.15" before "dropout 0.2". */
static int compare_rows(const void *one, const void *other)
{
    const char *a = ((const struct row *)one)->name, *b = ((const struct row *)other)->name;
    while (*a != '\0' && *b != '\0') {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            char *after_a, *after_b;
            double x = strtod(a, &after_a), y = strtod(b, &after_b);
            if (x != y)
                return x < y ? -1 : 1;
            a = after_a;
            b = after_b;
        } else if (*a != *b) {
            break;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static void write_rows(FILE *page, const struct report_groups *groups, const struct row *rows,
                       const struct cell *cells, const double *lows, const double *highs)
{
    for (size_t i = 0; i < groups->num_models; i++) {
        size_t model = rows[i].model;
        const struct cell *row = cells + model * groups->num_tasks;
        size_t found = 0;
        for (size_t task = 0; task < groups->num_tasks; task++)
            found += row[task].count;
        if (found == 0)
            continue;
        fputs("<tr><th scope=\"row\">", page);
        html_text(page, groups->models[model].name);
        for (size_t task = 0; task < groups->num_tasks; task++)
            if (groups->tasks[task].chooser[0] != '\0')
                write_cell(page, &row[task], lows[task], highs[task]);
        fputc('\n', page);
    }
}

bool report_write_models(FILE *page, const struct report_run *runs, size_t count,
                         const struct report_groups *groups)
{
    size_t tasks = groups->num_tasks;
    if (tasks < 2 && groups->num_models == count)
        return true;
    struct cell *cells = calloc(groups->num_models * tasks, sizeof *cells);
    double *ranges = calloc(2 * tasks, sizeof *ranges), *lows = ranges, *highs = ranges + tasks;
    struct row *rows = calloc(groups->num_models, sizeof *rows);
    struct value *values = calloc(count + 1, sizeof *values);
    bool good = cells != NULL && ranges != NULL && rows != NULL && values != NULL;
    for (size_t model = 0; good && model < groups->num_models; model++)
        rows[model] = (struct row){groups->models[model].name, model};
    if (good)
        sum_up(runs, count, groups, cells, values);
    for (size_t task = 0; good && task < tasks; task++) {
        lows[task] = INFINITY;
        highs[task] = -INFINITY;
        for (size_t model = 0; model < groups->num_models; model++) {
            const struct cell *cell = &cells[model * tasks + task];
            lows[task] = cell->count > 0 ? fmin(lows[task], cell->mean) : lows[task];
            highs[task] = cell->count > 0 ? fmax(highs[task], cell->mean) : highs[task];
        }
    }
    if (good) {
        qsort(rows, groups->num_models, sizeof *rows, compare_rows);
        fputs("<div class=\"heat named\">", page);
        write_head(page, groups);
        write_rows(page, groups, rows, cells, lows, highs);
        fputs("</tbody>", page);
        html_table_end(page);
        fputs("</div>\n<p class=\"muted\">Best value on validation of finished runs, by the metric that "
              "chooses the model. Several seeds: mean &plusmn; standard deviation (number of seeds); runs of "
              "one seed count once. The stronger the colour, the larger the value in its column. A model is "
              "its attention and the options that at most half of the runs of its task have, without those "
              "that all of them with its attention share.</p>\n",
              page);
    }
    free(cells);
    free(ranges);
    free(rows);
    free(values);
    return good;
}
