/* Reads what bench, eval, inspect and bench/peers.py print as JSON. A record is recognised by its keys.
   Points go to plots that all files share; everything else is written as HTML at once.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

static const double MIB = 1 << 20;

static bool part_begin(struct results_part *part)
{
    part->to = open_memstream(&part->text, &part->size);
    return part->to != NULL;
}

bool results_begin(struct results *results)
{
    static const struct plot plots[NUM_RESULTS_PLOTS] = {
        [PLOT_FORWARD] = {.title = "Attention: forward time over length",
                          .x = {"sequence length n", "tokens", PLOT_LOG2},
                          .y = {"time", "ms", PLOT_LOG10}},
        [PLOT_BOTH] = {.title = "Attention: time of both passes over length",
                       .x = {"sequence length n", "tokens", PLOT_LOG2},
                       .y = {"time", "ms", PLOT_LOG10}},
        [PLOT_MEMORY] = {.title = "Attention: memory over length",
                         .x = {"sequence length n", "tokens", PLOT_LOG2},
                         .y = {"memory", "MiB", PLOT_LOG10}},
        [PLOT_LAYER] = {.title = "One layer: time over length",
                        .x = {"sequence length n", "tokens", PLOT_LOG2},
                        .y = {"time", "ms", PLOT_LOG10}},
        [PLOT_LAYER_MEMORY] = {.title = "One layer: memory over length",
                               .x = {"sequence length n", "tokens", PLOT_LOG2},
                               .y = {"workspace", "MiB", PLOT_LOG10}},
        [PLOT_ERROR] = {.title = "Error of yoso over the number of hashes",
                        .x = {"hashes m", "number", PLOT_LOG2},
                        .y = {"angle to yoso-e", "radians", PLOT_LOG10}},
    };
    *results = (struct results){0};
    memcpy(results->plots, plots, sizeof plots);
    return part_begin(&results->buckets) && part_begin(&results->confusions) &&
           part_begin(&results->tables) && part_begin(&results->machines);
}

static void part_free(struct results_part *part)
{
    if (part->to != NULL)
        fclose(part->to);
    free(part->text);
}

void results_free(struct results *results)
{
    for (size_t i = 0; i < NUM_RESULTS_PLOTS; i++)
        plot_free(&results->plots[i]);
    part_free(&results->buckets);
    part_free(&results->confusions);
    part_free(&results->tables);
    part_free(&results->machines);
}

static double number_at(const hashattn_value *record, const char *path)
{
    return hashattn_value_number(hashattn_value_find(record, path));
}

/* Appends the text at a path, with `before` in front; nothing if there is none. */
static void append(char label[PLOT_NAME], const char *before, const hashattn_value *record, const char *path)
{
    char number[HASHATTN_NUMBER_TEXT];
    const char *text = hashattn_value_text(hashattn_value_find(record, path), number);
    size_t used = strlen(label);
    if (text != NULL && *text != '\0')
        snprintf(label + used, PLOT_NAME - used, "%s%.60s", before, text);
}

static void add(struct results *results, enum results_plot which, const char *label, double x, double y)
{
    struct plot *plot = &results->plots[which];
    if (isfinite(x) && isfinite(y))
        plot_add(plot, plot_series_named(plot, label, plot->count), x, y);
    results->too_many |= plot->count > RESULTS_LABELS;
}

/* ---- bench --------------------------------------------------------------------------------------------- */

/* Appends the options of an `attention` record that differ from the mechanism's defaults. */
struct differing {
    char *label;
    hashattn_option row;
    const char *mechanism;
};

static int append_differing(void *user, const char *key, const hashattn_value *value)
{
    struct differing *differing = user;
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    char number[HASHATTN_NUMBER_TEXT];
    const char *text = hashattn_value_text(value, number);
    hashattn_option row = {.struct_size = sizeof row};
    size_t used = strlen(differing->label);
    if (text == NULL || key == NULL || strcmp(key, "projection") == 0)
        return 0;
    for (size_t i = 0; hashattn_mechanism_get(i, &info); i++)
        for (size_t j = 0;
             strcmp(info.name, differing->mechanism) == 0 && hashattn_mechanism_option(i, j, &row); j++)
            if (strcmp(row.name, key) == 0 && strcmp(row.preset, text) != 0)
                snprintf(differing->label + used, PLOT_NAME - used, ", %.40s %.40s", key, text);
    return 0;
}

static void read_attention(const hashattn_value *record, struct results *results)
{
    char label[PLOT_NAME] = "", name[HASHATTN_NUMBER_TEXT];
    const char *mechanism = hashattn_value_text(hashattn_value_find(record, "attention"), name);
    append(label, "", record, "attention");
    struct differing differing = {.label = label, .mechanism = mechanism};
    hashattn_value_each(hashattn_value_find(record, "options"), append_differing, &differing);
    append(label, ", ", record, "input");
    if (number_at(record, "causal") == 1)
        strncat(label, ", causal", PLOT_NAME - strlen(label) - 1);
    double n = number_at(record, "seq_len"), forward = number_at(record, "forward_ms");
    add(results, PLOT_FORWARD, label, n, forward);
    add(results, PLOT_BOTH, label, n, forward + number_at(record, "backward_ms"));
    add(results, PLOT_MEMORY, label, n,
        (number_at(record, "saved_bytes") + number_at(record, "scratch_bytes")) / MIB);
}

static void read_layer(const hashattn_value *record, struct results *results)
{
    char label[PLOT_NAME] = "", both[PLOT_NAME];
    append(label, "", record, "attention");
    double n = number_at(record, "seq_len"), forward = number_at(record, "forward_ms");
    add(results, PLOT_LAYER, label, n, forward);
    snprintf(both, sizeof both, "%.150s, forward and backward", label);
    add(results, PLOT_LAYER, both, n, forward + number_at(record, "backward_ms"));
    add(results, PLOT_LAYER_MEMORY, label, n, number_at(record, "workspace_bytes") / MIB);
}

static void read_error(const hashattn_value *record, struct results *results)
{
    char label[PLOT_NAME] = "";
    append(label, "n ", record, "seq_len");
    append(label, ", tau ", record, "hash_bits");
    append(label, ", ", record, "input");
    add(results, PLOT_ERROR, label, number_at(record, "num_hashes"), number_at(record, "radians"));
}

static int write_fact(void *user, const char *key, const hashattn_value *value)
{
    FILE *to = user;
    char number[HASHATTN_NUMBER_TEXT];
    const char *text = hashattn_value_text(value, number);
    if (key == NULL || text == NULL)
        return 0;
    fputs("<tr><th scope=\"row\">", to);
    html_text(to, key);
    fputs("<td class=\"w\">", to);
    if (isfinite(hashattn_value_number(value)) && text[strspn(text, "0123456789")] != '\0')
        html_number(to, hashattn_value_number(value));
    else
        html_text(to, text);
    fputc('\n', to);
    return 0;
}

/* The numbers and texts of a record, one per row. */
static void write_facts(FILE *to, const char *what, const char *file, const hashattn_value *record)
{
    fputs("<h3>", to);
    html_text(to, what);
    fputs(", ", to);
    html_text(to, file);
    fputs("</h3>\n", to);
    html_table(to, what);
    fputs("<thead><tr><th scope=\"col\" class=\"t\">fact<th scope=\"col\" class=\"t\">value</thead><tbody>\n",
          to);
    hashattn_value_each(record, write_fact, to);
    fputs("</tbody>", to);
    html_table_end(to);
}

/* ---- eval, peers --------------------------------------------------------------------------------------- */

static void read_evaluation(const hashattn_value *record, const char *file, struct results *results)
{
    struct confusion confusion;
    char title[PLOT_NAME] = "";
    append(title, "", record, "task");
    append(title, " with ", record, "attention");
    append(title, ", ", record, "split");
    write_facts(results->tables.to, "eval", file, record);
    report_read_confusion(hashattn_value_find(record, "confusion"), &confusion);
    report_write_confusion(results->confusions.to, title, &confusion, hashattn_value_find(record, "labels"));
}

static const char *const of_difference[] = {"run", "against", "difference", "standard_error", "z", "p"};
enum { OF_DIFFERENCE = sizeof of_difference / sizeof *of_difference };

static int write_difference(void *user, const char *metric, const hashattn_value *value)
{
    FILE *to = user;
    if (metric == NULL) /* of a list */
        return 0;
    fputs("<tr><th scope=\"row\">", to);
    html_text(to, metric);
    for (size_t i = 0; i < OF_DIFFERENCE; i++) {
        fputs("<td>", to);
        html_number(to, number_at(value, of_difference[i]));
    }
    fputc('\n', to);
    return 0;
}

/* `eval --against`: a row for each metric. */
static void read_comparison(const hashattn_value *record, const char *file, struct results *results)
{
    FILE *to = results->tables.to;
    char title[PLOT_NAME] = "";
    append(title, "", record, "run");
    append(title, " against ", record, "against");
    append(title, " on ", record, "task");
    append(title, ", ", record, "split");
    fputs("<h3>", to);
    html_text(to, title);
    fputs(", ", to);
    html_text(to, file);
    fputs("</h3>\n", to);
    html_table(to, title);
    fputs("<thead><tr><th scope=\"col\" class=\"t\">metric", to);
    for (size_t i = 0; i < OF_DIFFERENCE; i++)
        fprintf(to, "<th scope=\"col\">%s", of_difference[i]);
    fputs("</thead><tbody>\n", to);
    hashattn_value_each(hashattn_value_find(record, "metrics"), write_difference, to);
    fputs("</tbody>", to);
    html_table_end(to);
}

/* Median of an array of numbers; NaN if it is empty or has anything else. */
static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

enum { MOST_ROUNDS = 64 };
struct rounds {
    double values[MOST_ROUNDS];
    size_t count;
};

static int take_round(void *user, const char *key, const hashattn_value *value)
{
    struct rounds *rounds = user;
    (void)key;
    if (rounds->count == MOST_ROUNDS || isnan(hashattn_value_number(value)))
        return 1;
    rounds->values[rounds->count++] = hashattn_value_number(value);
    return 0;
}

static double median_at(const hashattn_value *record, const char *path)
{
    struct rounds rounds = {.count = 0};
    hashattn_value_each(hashattn_value_find(record, path), take_round, &rounds);
    if (rounds.count == 0)
        return NAN;
    qsort(rounds.values, rounds.count, sizeof *rounds.values, by_value);
    return (rounds.values[(rounds.count - 1) / 2] + rounds.values[rounds.count / 2]) / 2;
}

struct peers {
    struct results *results;
    double n; /* of rows without a length of their own */
};

static int read_peer(void *user, const char *key, const hashattn_value *row)
{
    struct peers *peers = user;
    char label[PLOT_NAME] = "", number[HASHATTN_NUMBER_TEXT];
    (void)key;
    double n = number_at(row, "n");
    n = isnan(n) ? peers->n : n;
    append(label, "", row, "label");
    const char *precision = hashattn_value_text(hashattn_value_find(row, "precision"), number);
    if (precision != NULL && strcmp(precision, "float32") != 0)
        append(label, ", ", row, "precision");
    append(label, ", ", row, "input");
    double memory = number_at(row, "memory.both");
    add(peers->results, PLOT_FORWARD, label, n, median_at(row, "ms.forward"));
    add(peers->results, PLOT_BOTH, label, n, median_at(row, "ms.both"));
    add(peers->results, PLOT_MEMORY, label, n,
        (isnan(memory) ? number_at(row, "memory.forward") : memory) / MIB);
    return 0;
}

static void read_peers(const hashattn_value *record, const char *file, struct results *results)
{
    struct peers peers = {results, number_at(record, "n")};
    hashattn_value_each(hashattn_value_find(record, "rows"), read_peer, &peers);
    write_facts(results->machines.to, "Machine of the comparison", file,
                hashattn_value_find(record, "machine"));
}

/* ---- files --------------------------------------------------------------------------------------------- */

static bool has(const hashattn_value *record, const char *path)
{
    return hashattn_value_find(record, path) != NULL;
}

/* Returns false if the record is none of the results. */
static bool read_result(const hashattn_value *record, const char *file, struct results *results)
{
    char number[HASHATTN_NUMBER_TEXT];
    bool named = hashattn_value_text(hashattn_value_find(record, "attention"), number) != NULL;
    if (named && has(record, "head_dim") && has(record, "forward_ms"))
        read_attention(record, results);
    else if (named && has(record, "dim") && has(record, "forward_ms"))
        read_layer(record, results);
    else if (has(record, "radians") && has(record, "num_hashes"))
        read_error(record, results);
    else if (has(record, "rows.0.ms") && has(record, "machine"))
        read_peers(record, file, results);
    else if (has(record, "heads.0.num_buckets"))
        results_draw_buckets(record, file, results);
    else if (has(record, "split") && has(record, "num_params"))
        read_evaluation(record, file, results);
    else if (has(record, "against") && has(record, "metrics"))
        read_comparison(record, file, results);
    else if (has(record, "step_ms"))
        write_facts(results->tables.to, "bench step", file, record);
    else if (has(record, "float32_gflops"))
        write_facts(results->machines.to, "bench peak", file, record);
    else if (has(record, "absorb_ms"))
        write_facts(results->tables.to, "bench stream", file, record);
    else if (has(record, "attend_ms"))
        write_facts(results->tables.to, "bench decode", file, record);
    else if (has(record, "choices"))
        write_facts(results->tables.to, "bench suggest", file, record);
    else
        return false;
    return true;
}

int results_read(hashattn_context *context, const char *path, struct results *results)
{
    hashattn_records *records;
    hashattn_status status = hashattn_records_open(context, path, 0, &records);
    size_t count = 0;
    bool known = true;
    while (status == HASHATTN_OK && known) {
        const hashattn_value *record;
        status = hashattn_records_next(records, &record);
        if (status != HASHATTN_OK || record == NULL)
            break;
        count++;
        known = read_result(record, path, results);
        if (results->too_many)
            break;
    }
    hashattn_records_close(records);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    if (results->too_many)
        return tool_fail(
            EXIT_FILE,
            "%s: record %zu: a figure has more than %d different labels, the most that it can show", path,
            count, RESULTS_LABELS);
    if (!known)
        return tool_fail(EXIT_FILE,
                         "%s: record %zu is no result of hashattn bench, eval or inspect with --json, nor of "
                         "bench/peers.py",
                         path, count);
    return count > 0 ? EXIT_GOOD : tool_fail(EXIT_FILE, "%s: there are no results", path);
}
