/* Reads a run for the page: its settings, and the log as curves. A log of a million lines is some 200 MB and
   takes seconds.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/report/report.h"
#include "cli/shared/tool/grow.h"

const char *report_run_setting(const struct report_run *run, const char *path,
                               char number[HASHATTN_NUMBER_TEXT])
{
    const char *text = hashattn_value_text(hashattn_value_find(run->config, path), number);
    return text != NULL ? text : "";
}

const struct curve *report_run_curve(const struct report_run *run, const char *key)
{
    for (size_t i = 0; i < run->num_curves; i++)
        if (strcmp(run->curves[i].key, key) == 0)
            return &run->curves[i];
    return NULL;
}

double report_run_last(const struct report_run *run, const char *key)
{
    const struct curve *curve = report_run_curve(run, key);
    for (size_t i = curve != NULL ? curve->count : 0; i > 0; i--)
        if (isfinite(curve->points[i - 1].value))
            return curve->points[i - 1].value;
    return NAN;
}

/* ---- the log ------------------------------------------------------------------------------------------- */

struct confusion_reader {
    struct confusion *confusion;
    size_t row, column;
    bool good;
};

static int read_cell(void *user, const char *key, const hashattn_value *value)
{
    struct confusion_reader *reader = user;
    double number = hashattn_value_number(value);
    (void)key;
    reader->good &= number >= 0 && number < 1e15;
    reader->confusion->counts[reader->row * reader->confusion->classes + reader->column++] = number;
    return !reader->good;
}

static int read_row(void *user, const char *key, const hashattn_value *value)
{
    struct confusion_reader *reader = user;
    reader->good &= key == NULL && hashattn_value_count(value) == reader->confusion->classes;
    reader->column = 0;
    if (reader->good)
        hashattn_value_each(value, read_cell, reader);
    reader->row++;
    return !reader->good;
}

void report_read_confusion(const hashattn_value *rows, struct confusion *confusion)
{
    struct confusion_reader reader = {.confusion = confusion, .good = true};
    confusion->classes = hashattn_value_count(rows);
    reader.good = confusion->classes <= REPORT_CLASSES;
    if (reader.good)
        hashattn_value_each(rows, read_row, &reader);
    if (!reader.good)
        confusion->classes = 0;
}

/* One line of the log. */
struct line {
    struct report_run *run;
    double step, seconds;
    bool is_best; /* every best_X equals its valid_X */
    const hashattn_value *record;
};

static struct curve *curve_of(struct report_run *run, const char *key)
{
    for (size_t i = 0; i < run->num_curves; i++)
        if (strcmp(run->curves[i].key, key) == 0)
            return &run->curves[i];
    if (run->num_curves == REPORT_CURVES || strlen(key) >= REPORT_KEY)
        return NULL;
    struct curve *curve = &run->curves[run->num_curves++];
    strcpy(curve->key, key);
    return curve;
}

/* best_accuracy names the metric that chooses, if it is the first of its kind. */
static void read_best(struct line *line, const char *metric, double value)
{
    char valid[REPORT_KEY + 8];
    snprintf(valid, sizeof valid, "valid_%s", metric);
    if (line->run->chooser[0] == '\0')
        snprintf(line->run->chooser, sizeof line->run->chooser, "%s", metric);
    bool is_member = hashattn_value_find(line->record, valid) != NULL;
    line->is_best &= !is_member || value == hashattn_value_number(hashattn_value_find(line->record, valid));
}

static int read_member(void *user, const char *key, const hashattn_value *value)
{
    struct line *line = user;
    struct report_run *run = line->run;
    char number[HASHATTN_NUMBER_TEXT];
    double found = hashattn_value_number(value);
    bool is_null = hashattn_value_text(value, number) == NULL && hashattn_value_count(value) == 0;
    if ((isnan(found) && !is_null) || strcmp(key, "step") == 0 || strcmp(key, "seconds") == 0)
        return 0;
    bool best = strncmp(key, "best_", 5) == 0;
    if (best)
        read_best(line, key + 5, found);
    run->not_finite += is_null && !best; /* a run that was stopped early has no best values */
    struct curve *curve = curve_of(run, key);
    if (curve == NULL)
        return 0;
    void *points = curve->points;
    if (!grow(&points, &curve->capacity, curve->count, sizeof *curve->points)) {
        run->no_memory = true;
        return 1;
    }
    curve->points = points;
    curve->points[curve->count++] = (struct curve_point){line->step, line->seconds, found};
    return 0;
}

static void take_text(const hashattn_value *record, const char *key, char *to, size_t size)
{
    char number[HASHATTN_NUMBER_TEXT];
    const char *text = hashattn_value_text(hashattn_value_find(record, key), number);
    if (text != NULL)
        snprintf(to, size, "%s", text);
}

static void read_event(struct report_run *run, const hashattn_value *record)
{
    char event[REPORT_KEY] = "";
    take_text(record, "event", event, sizeof event);
    run->resumes += strcmp(event, "resume") == 0;
    take_text(record, "isa", run->isa, sizeof run->isa);
    take_text(record, "product", run->product, sizeof run->product);
    take_text(record, "precision", run->precision, sizeof run->precision);
    run->threads = hashattn_value_number(hashattn_value_find(record, "threads"));
    run->parameters = hashattn_value_number(hashattn_value_find(record, "parameters"));
}

static void read_record(struct report_run *run, const hashattn_value *record)
{
    struct line line = {.run = run, .record = record, .is_best = true};
    line.step = hashattn_value_number(hashattn_value_find(record, "step"));
    line.seconds = hashattn_value_number(hashattn_value_find(record, "seconds"));
    if (!(line.step >= 0)) {
        run->broken_lines++;
        return;
    }
    run->last_step = fmax(run->last_step, line.step);
    if (hashattn_value_find(record, "event") != NULL) {
        read_event(run, record);
        return;
    }
    hashattn_value_each(record, read_member, &line);
    const hashattn_value *rows = hashattn_value_find(record, "confusion");
    if (rows != NULL && (line.is_best || run->confusion.classes == 0))
        report_read_confusion(rows, &run->confusion);
}

static void read_log(hashattn_context *context, struct report_run *run)
{
    char path[4096 + 16];
    hashattn_records *log;
    snprintf(path, sizeof path, "%.4096s/log.jsonl", run->path);
    hashattn_status status = hashattn_records_open(context, path, 1, &log);
    if (status != HASHATTN_OK) {
        run->broken_lines = 1;
        snprintf(run->broken, sizeof run->broken, "%s", hashattn_context_message(context));
        return;
    }
    for (const hashattn_value *record = NULL;;) {
        status = hashattn_records_next(log, &record);
        if (status == HASHATTN_OK && record == NULL)
            break;
        if (status == HASHATTN_OK) {
            read_record(run, record);
        } else if (run->broken_lines++ == 0) {
            snprintf(run->broken, sizeof run->broken, "%s", hashattn_context_message(context));
        }
        if (status == HASHATTN_NO_MEMORY || run->no_memory) {
            run->no_memory = true;
            break;
        }
    }
    hashattn_records_close(log);
}

/* ---- the settings -------------------------------------------------------------------------------------- */

/* Returns false, with the state, if config.json is not one of this version. */
static bool read_config(hashattn_context *context, struct report_run *run)
{
    char path[4096 + 16], number[HASHATTN_NUMBER_TEXT];
    snprintf(path, sizeof path, "%.4096s/config.json", run->path);
    hashattn_status status = hashattn_records_open(context, path, 1, &run->file);
    if (status == HASHATTN_OK)
        status = hashattn_records_next(run->file, &run->config);
    if (status != HASHATTN_OK) {
        run->config = NULL;
        snprintf(run->state, sizeof run->state, "not readable: %s", hashattn_context_message(context));
        return false;
    }
    const char *format = report_run_setting(run, "format", number);
    double version = hashattn_value_number(hashattn_value_find(run->config, "version"));
    if (strcmp(format, "hashattn run") != 0)
        snprintf(run->state, sizeof run->state, "config.json has the format '%.60s', not 'hashattn run'",
                 format);
    else if (version != 1 && version != 2)
        snprintf(run->state, sizeof run->state,
                 "config.json has version %g; this version of hashattn reads 1 and 2", version);
    else
        return true;
    return false;
}

/* Says how far the run came. */
static void judge(struct report_run *run)
{
    double steps = hashattn_value_number(hashattn_value_find(run->config, "training.steps"));
    size_t used = strlen(run->state);
    if (used > 0)
        return;
    run->good = true;
    if (hashattn_run_is_training(run->path))
        used = (size_t)snprintf(run->state, sizeof run->state, "in training, step %.0f of %.0f",
                                run->last_step, steps);
    else if (run->num_curves == 0)
        used = (size_t)snprintf(run->state, sizeof run->state, "no steps logged");
    else if ((run->finished = run->last_step >= steps))
        used = (size_t)snprintf(run->state, sizeof run->state, "finished");
    else
        used = (size_t)snprintf(run->state, sizeof run->state, "stopped at step %.0f of %.0f", run->last_step,
                                steps);
    run->good = run->num_curves > 0;
}

static void judge_log(struct report_run *run)
{
    size_t used = strlen(run->state);
    if (run->broken_lines > 0 && used < sizeof run->state)
        used += (size_t)snprintf(run->state + used, sizeof run->state - used,
                                 "; %zu broken line%s in the log%s%s", run->broken_lines,
                                 run->broken_lines == 1 ? "" : "s", run->broken[0] == '\0' ? "" : ": ",
                                 run->broken);
    if (run->not_finite > 0 && used < sizeof run->state)
        snprintf(run->state + used, sizeof run->state - used, "; %zu value%s not finite", run->not_finite,
                 run->not_finite == 1 ? " is" : "s are");
    run->good &= run->broken_lines == 0 && run->not_finite == 0;
}

void report_run_read(hashattn_context *context, const char *path, struct report_run *run)
{
    struct stat facts;
    *run = (struct report_run){.path = path, .threads = NAN, .parameters = NAN};
    if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        snprintf(run->state, sizeof run->state, "not readable: there is no directory '%.400s'", path);
        return;
    }
    bool known = read_config(context, run);
    if (run->config != NULL) {
        const hashattn_value *selects = hashattn_value_find(run->config, "task.facts.objectives.0.selects");
        char number[HASHATTN_NUMBER_TEXT];
        const char *text = hashattn_value_text(selects, number);
        if (text != NULL)
            snprintf(run->chooser, sizeof run->chooser, "%s", text);
        read_log(context, run);
    }
    if (known)
        judge(run);
    judge_log(run);
}

void report_run_free(struct report_run *run)
{
    for (size_t i = 0; i < run->num_curves; i++)
        free(run->curves[i].points);
    hashattn_records_close(run->file);
}
