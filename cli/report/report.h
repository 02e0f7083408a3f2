/* What the files of `report` share: runs and results as read, and how they are written. Reading never fails
   because of what a file of a run contains: the run's state says what is wrong.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/shared/pictures/plot.h"
#include "cli/shared/tool/command.h"

enum { REPORT_KEY = 64, REPORT_CURVES = 64, REPORT_CLASSES = 32, REPORT_WORDS = 600 };

/* ---- runs ---- */

/* The values of one key of log.jsonl. */
struct curve {
    char key[REPORT_KEY];
    struct curve_point {
        double step, seconds,
            value; /* seconds of training so far, NaN if not logged; value NaN: null in the log */
    } * points;
    size_t count, capacity;
};

/* Counts of a classifier: row the class, column the prediction. */
struct confusion {
    size_t classes; /* 0: none */
    double counts[REPORT_CLASSES * REPORT_CLASSES];
};

struct report_run {
    const char *path;
    char name[PLOT_NAME], data[PLOT_NAME]; /* the last parts of the path, and of the data's, as many as tell
                                              all runs, and all data, apart */
    char state[REPORT_WORDS];              /* "finished", or what is wrong */
    bool good, finished;                   /* good: nothing is wrong */
    hashattn_records *file;                /* of config.json, which owns `config` */
    const hashattn_value *config;          /* NULL: not readable */
    char isa[REPORT_KEY], product[REPORT_KEY], precision[REPORT_KEY];
    double last_step, threads, parameters;
    size_t resumes, broken_lines, not_finite;
    char broken[REPORT_WORDS]; /* the message of the first broken line */
    struct curve curves[REPORT_CURVES];
    size_t num_curves;
    char chooser[REPORT_KEY];   /* the metric that chooses the best model; "" if unknown */
    struct confusion confusion; /* of the best model, or of the last evaluation */
    bool no_memory;
};

/* Reads config.json and log.jsonl. */
void report_run_read(hashattn_context *context, const char *path, struct report_run *run);
void report_run_free(struct report_run *run);
/* The curve of this key, or NULL. */
const struct curve *report_run_curve(const struct report_run *run, const char *key);
/* The last finite value of this key; NaN if there is none. */
double report_run_last(const struct report_run *run, const char *key);
/* Text at a path of config.json; "" if there is none. */
const char *report_run_setting(const struct report_run *run, const char *path,
                               char number[HASHATTN_NUMBER_TEXT]);
/* Reads (classes, classes) numbers; classes is 0 if they are anything else. */
void report_read_confusion(const hashattn_value *rows, struct confusion *confusion);

/* text: the value; of a flag, "true" or "false". */
typedef void report_take(void *user, const char *name, const char *text, bool is_flag);
/* Tells the options that differ from the defaults of the run's task and mechanism: names as on the command
   line, without hyphens before them. Not data, attention and out. */
void report_each_option(hashattn_context *context, const struct report_run *run, report_take *take,
                        void *user);
/* Writes the command that repeats the run, with these options. */
void report_write_command(FILE *page, hashattn_context *context, const struct report_run *run);

/* ---- runs that belong together ---- */

struct report_groups {
    struct report_task {          /* a task, data set and metric */
        char name[PLOT_NAME];     /* "glue", or "glue, RTE" if runs on other data are on the page */
        char chooser[REPORT_KEY]; /* the metric that chooses its best models; "" if unknown */
        size_t runs, begin;       /* its runs are by_task[begin] and those after it */
    } * tasks;
    struct report_model {
        char name[PLOT_NAME]; /* "yoso, num-hashes 16": attention, and what is unusual in the task's runs */
    } * models;               /* runs of one model and one task differ in their seeds only */
    struct report_member {
        size_t task, model;
    } * members;     /* one per run */
    size_t *by_task; /* runs, task by task, in their order */
    size_t num_tasks, num_models;
};

/* Names each run and its data by the last parts of their paths. False if memory runs out. */
bool report_name_runs(struct report_run *runs, size_t count);
/* False if memory runs out. Runs without a readable config have the task "". */
bool report_group_runs(hashattn_context *context, const struct report_run *runs, size_t count,
                       struct report_groups *groups);
void report_groups_free(struct report_groups *groups);

/* ---- results of bench, eval, inspect and bench/peers.py ---- */

enum results_plot {
    PLOT_FORWARD,
    PLOT_BOTH,
    PLOT_MEMORY,
    PLOT_LAYER,
    PLOT_LAYER_MEMORY,
    PLOT_ERROR,
    NUM_RESULTS_PLOTS
};

struct results {
    struct plot plots[NUM_RESULTS_PLOTS];
    /* HTML, written while reading; each is a memory stream. */
    struct results_part {
        FILE *to;
        char *text;
        size_t size;
    } buckets, confusions, tables, machines;
    size_t figures; /* number of the last figure */
    bool too_many;  /* a figure has more than RESULTS_LABELS lines */
};
enum { RESULTS_LABELS = 1000 };

bool results_begin(struct results *results);
/* Reads one file; returns an exit code, with the message printed: EXIT_FILE if it cannot be read, or if a
   record is none of these results. */
int results_read(hashattn_context *context, const char *path, struct results *results);
void results_free(struct results *results);
/* The pictures of the buckets of an `inspect` record. */
void results_draw_buckets(const hashattn_value *record, const char *name, struct results *results);

/* Writes figures 1, 2 and 6 of the YOSO paper from made inputs. Returns an exit code, with the message
   printed. */
int report_write_yoso(FILE *page, hashattn_context *context, size_t *figures);

/* ---- the page ---- */

/* Figures and matrices of more runs are shortened, so that they can be read: see report_write_curves. */
enum { REPORT_FEW = 12 };

/* labels: an array of names, or NULL. */
void report_write_confusion(FILE *page, const char *title, const struct confusion *confusion,
                            const hashattn_value *labels);
void report_write_summary(FILE *page, const struct report_run *runs, size_t count,
                          const struct report_groups *groups);
/* The table of models by tasks, over seeds; nothing if each run has a model of its own and there is one task.
   Returns false if memory runs out. */
bool report_write_models(FILE *page, const struct report_run *runs, size_t count,
                         const struct report_groups *groups);
/* The figures of the runs, those of a task together. *figures: number of the last figure. A task of more than
   REPORT_FEW runs has one legend for all its figures, and only the losses, the metric that chooses, and the
   metrics of mechanisms. Returns false if memory runs out. */
bool report_write_curves(FILE *page, const struct report_run *runs, size_t count,
                         const struct report_groups *groups, size_t *figures);
/* The part of a page of at most 2 MB that a series may have, in points. */
size_t report_most_points(size_t series);

#endif
