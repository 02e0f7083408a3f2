/* `train`: trains a model on a task, with messages and a progress bar on stderr. It saves and stops at the
   first SIGHUP, SIGINT, SIGPIPE or SIGTERM, at a given value of a metric, or after a given time. While it
   reads data there is nothing to save, and a signal ends it at once.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/data_out.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/output/metrics_out.h"
#include "cli/shared/output/profile_out.h"
#include "cli/shared/output/progress.h"
#include "cli/shared/pictures/forecast_picture.h"
#include "cli/shared/tool/signals.h"

/* The first signal that finds a training begun stops it, the second one its last evaluation; any other one
   ends the tool at once. SIGPIPE, when nobody reads the messages any more, is never the second one: the stop
   has messages too, and Ctrl-C also ends the reader. */
static volatile sig_atomic_t stop_signal, second_signal;
static const hashattn_context *volatile trains; /* the context that trains */

static void on_signal(int number)
{
    if (!hashattn_context_is_training(trains)) {
        signals_end(number);
    } else if (stop_signal == 0) {
        stop_signal = number;
    } else if (number != SIGPIPE) {
        second_signal = number; /* ends the last evaluation */
        signal(number, signals_end);
    }
}

static void watch_signals(const hashattn_context *context)
{
    trains = context;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signals_set(SIGHUP, &action); /* nohup ignores it */
    signals_set(SIGPIPE, &action);
}

struct watched {
    struct progress progress;
    char until[METRICS_NAME];        /* stop when this validation metric reaches until_value; empty: never */
    double until_value, max_seconds; /* max_seconds 0: no limit */
    bool until_unknown;              /* no metric has that name */
    double begun_seconds;            /* time of the run when this process started; -1: not known yet */
    const char *stopped_by;          /* "steps", the name of a metric, "time" or "signal" */
    hashattn_progress last;          /* last report; its lists are the following */
    struct metrics_copy train, valid, best; /* as of the last evaluation, if any */
    int64_t steps_here;                     /* steps done by this process */
    bool told, has_evaluated, live, evaluated_at_stop;
    struct sparkline losses;       /* of every step */
    char warning[300], names[300]; /* names: of all metrics if `until` is unknown */
};

static void say_evaluation(struct watched *watched, const hashattn_progress *now)
{
    char train[300], valid[300], best[100] = "";
    const hashattn_metric *chooser = metrics_chooser(&now->best);
    if (chooser != NULL)
        snprintf(best, sizeof best, "  best %s %.4f", chooser->name, chooser->value);
    progress_words(&watched->progress, "step %lld/%lld  %s  %s%s  %.0f tokens/s", (long long)now->step,
                   (long long)now->steps, metrics_words(&now->train, "", "  ", false, train, sizeof train),
                   metrics_words(&now->valid, "valid ", "  ", false, valid, sizeof valid), best,
                   now->tokens_per_second);
}

/* True if the metric of --until has reached its value, or if there is no such metric. */
static bool reached(struct watched *watched, const hashattn_progress *now)
{
    if (watched->until[0] == '\0' || now->valid.count == 0)
        return false;
    const hashattn_metric *metric = hashattn_metric_find(&now->valid, watched->until);
    if (metric == NULL) {
        watched->until_unknown = true;
        for (size_t i = 0, used = 0; i < now->valid.count && used < sizeof watched->names; i++)
            used += (size_t)snprintf(watched->names + used, sizeof watched->names - used, "%s%s",
                                     i == 0 ? "" : ", ", now->valid.list[i].name);
        return true;
    }
    return metric->more_is_better ? metric->value >= watched->until_value
                                  : metric->value <= watched->until_value;
}

static int watch(void *user, const hashattn_progress *now)
{
    struct watched *watched = user;
    if (watched->begun_seconds < 0)
        watched->begun_seconds = now->seconds;
    watched->steps_here += now->step > watched->last.step && watched->told;
    if (!watched->told)
        watched->steps_here = 1;
    if (now->step > watched->last.step || !watched->told)
        sparkline_add(&watched->losses, now->step_loss);
    watched->told = true;
    watched->last = *now;
    watched->last.warning = watched->last.note = NULL;
    if (now->warning != NULL && strcmp(now->warning, watched->warning) != 0) {
        snprintf(watched->warning, sizeof watched->warning, "%s", now->warning);
        progress_words(&watched->progress, "hashattn: %s", now->warning);
    }
    if (now->note != NULL)
        progress_words(&watched->progress, "%s", now->note);
    if (now->valid.count > 0 || !watched->has_evaluated)
        metrics_copy_from(&watched->train, &now->train);
    metrics_copy_from(&watched->best, &now->best);
    if (now->valid.count > 0) {
        metrics_copy_from(&watched->valid, &now->valid);
        watched->has_evaluated = true;
        say_evaluation(watched, now);
    }
    char metrics[200], words[240];
    snprintf(words, sizeof words, "%s  %.0f tokens/s",
             metrics_words(&now->train, "", "  ", false, metrics, sizeof metrics), now->tokens_per_second);
    progress_show(&watched->progress, now->step, now->steps, words);
    if (now->stopping) {
        watched->evaluated_at_stop |= now->valid.count > 0;
        return second_signal != 0;
    }
    if (stop_signal != 0)
        watched->stopped_by = "signal";
    else if (reached(watched, now))
        watched->stopped_by = watched->until;
    else if (watched->max_seconds > 0 && now->seconds - watched->begun_seconds >= watched->max_seconds)
        watched->stopped_by = "time";
    return watched->stopped_by != NULL;
}

struct train {
    struct data_read read;
    hashattn_context *context;
    hashattn_setup *setup; /* NULL: a run is continued */
    const char *data, *preset, *from, *mechanism, *freeze, *out, *resume, *draw, *column;
    int profile, live;
    int rank;
    int64_t steps; /* of --resume: the new total, or 0 */
    struct watched watched;
};

/* What was read, and what would stop an export, before the first step. */
static int show_data(void *user, const hashattn_data_part *part)
{
    static const char last[] = "valid";
    struct train *train = user;
    if (data_read_add(&train->read, part) != 0)
        return 1;
    if (strcmp(part->split, last) != 0)
        return 0;
    data_read_words(&train->read, stderr);
    if (hashattn_setup_check_export(train->setup) == HASHATTN_REFUSED)
        fprintf(stderr, "export will refuse this run: %s\n", hashattn_context_message(train->context));
    return 0;
}

/* NaN, which is written as null, if nothing was reported. */
static double or_null(bool told, double value)
{
    return told ? value : NAN;
}

static void report_json(const struct train *train, const struct watched *watched,
                        const hashattn_context *context, const char *run, const char *task)
{
    const hashattn_progress *last = &watched->last;
    const hashattn_metrics train_metrics = metrics_of_copy(&watched->train),
                           valid = metrics_of_copy(&watched->valid), best = metrics_of_copy(&watched->best);
    bool told = watched->told;
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "run", run);
    json_out_text(&json, "task", task);
    json_out_number(&json, "steps", or_null(told, (double)last->step));
    json_out_number(&json, "seconds", or_null(told, last->seconds));
    json_out_number(&json, "tokens_per_second", or_null(told, last->tokens_per_second));
    metrics_json(&json, "", &train_metrics);
    metrics_json(&json, "valid_", &valid);
    metrics_json(&json, "best_", &best);
    json_out_number(&json, "saved_bytes", or_null(told, (double)last->saved_bytes));
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    json_out_text(&json, "stopped_by",
                  watched->stopped_by != NULL        ? watched->stopped_by
                  : told && last->step < last->steps ? "patience"
                                                     : "steps");
    if (train->profile)
        profile_json(&json, context, (size_t)watched->steps_here);
    json_out_end_object(&json);
}

/* ---- the command --------------------------------------------------------------------------------------- */

/* The whole curve in one line, also where no bar was shown. */
static void say_losses(struct watched *watched)
{
    char text[SPARKLINE_TEXT];
    if (sparkline_draw(&watched->losses, SPARKLINE_COLUMNS, sparkline_locale(), text) > 0)
        progress_words(&watched->progress, "loss %s %.4f to %.4f", text, watched->losses.first,
                       watched->losses.last);
}

static const char *words_of_stop(struct watched *watched)
{
    snprintf(watched->names, sizeof watched->names, "stopped by %s", watched->stopped_by);
    return watched->names;
}

static int finish(const struct train *train, const struct options *options, hashattn_context *context,
                  hashattn_status status)
{
    struct watched watched = train->watched;
    char best[100] = "";
    const hashattn_metrics kept = metrics_of_copy(&watched.best);
    const hashattn_metric *chooser = metrics_chooser(&kept);
    if (chooser != NULL)
        snprintf(best, sizeof best, ", best %s %.4f", chooser->name, chooser->value);
    progress_end(&watched.progress);
    if (watched.until_unknown)
        return tool_fail(EXIT_USAGE, "--until: no metric is called '%s'; there are: %s", watched.until,
                         watched.names);
    /* A rank that stops because another did leaves the exit code to that one. */
    bool follows = train->rank > 0 && watched.stopped_by == NULL;
    bool by_wish = status == HASHATTN_INTERRUPTED &&
                   (follows || (watched.stopped_by != NULL && strcmp(watched.stopped_by, "signal") != 0));
    const char *run = train->resume != NULL ? train->resume : train->out;
    if (watched.live)
        say_losses(&watched);
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        return tool_fail_status(context, status);
    if (status == HASHATTN_OK)
        watched.stopped_by = NULL; /* the condition was met at the last step */
    if (!watched.told)
        progress_words(
            &watched.progress,
            "nothing left to do in %s; to go on: hashattn train --resume %s --steps N, the new total", run,
            run);
    else if (status == HASHATTN_INTERRUPTED)
        progress_words(&watched.progress,
                       "%s at step %lld of %lld%s, saved in %s; continue with: hashattn "
                       "train --resume %s",
                       by_wish ? words_of_stop(&watched) : "interrupted", (long long)watched.last.step,
                       (long long)watched.last.steps, watched.has_evaluated ? "" : ", not evaluated", run,
                       run);
    else if (watched.last.step < watched.last.steps)
        progress_words(
            &watched.progress,
            "stopped early at step %lld of %lld: no better model%s, in %s; continue with: hashattn "
            "train --resume %s --steps N",
            (long long)watched.last.step, (long long)watched.last.steps, best, run, run);
    else
        progress_words(&watched.progress, "done: %lld step%s in %.1f s%s, in %s",
                       (long long)watched.last.step, watched.last.step == 1 ? "" : "s", watched.last.seconds,
                       best, run);
    if (train->profile && !options->common.quiet)
        profile_words(context, "ms per step", (size_t)watched.steps_here);
    if (train->draw != NULL && (status == HASHATTN_OK || by_wish)) {
        int code = forecast_picture_of_run(context, run, train->draw, train->column);
        if (code != EXIT_GOOD)
            return code;
    }
    if (options->common.json)
        report_json(train, &watched, context, run, options->num_operands > 0 ? options->operands[0] : NULL);
    int code = tool_finish();
    return code != EXIT_GOOD || status == HASHATTN_OK || by_wish ? code : EXIT_STOPPED;
}

static int work(struct train *train, const struct options *options, hashattn_context *context)
{
    hashattn_status status = HASHATTN_OK;
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    train->context = context;
    train->rank = is.rank;
    if (is.rank > 0)
        train->watched.max_seconds = 0; /* rank 0 keeps the time */
    if (train->draw != NULL) {          /* a path that cannot be written is found before the training */
        int code =
            forecast_picture_check(context, train->draw, train->resume != NULL ? train->resume : train->from,
                                   train->data, train->out);
        if (code != EXIT_GOOD)
            return code;
    }
    if (train->resume == NULL) {
        status = options_setup(options, context, options->operands[0], train->preset, train->from,
                               train->mechanism, &train->setup);
        if (status == HASHATTN_OK && train->freeze != NULL)
            status = hashattn_setup_freeze(train->setup, train->freeze);
        if (status != HASHATTN_OK) {
            hashattn_setup_free(train->setup);
            return tool_fail_status(context, status);
        }
    }
    if (train->profile)
        status = hashattn_profile_start(context);
    if (status != HASHATTN_OK) {
        hashattn_setup_free(train->setup);
        return tool_fail_status(context, status);
    }
    train->watched.progress = progress_begin(options->common.quiet);
    train->watched.begun_seconds = -1;
    train->watched.losses = sparkline_begin();
    train->watched.progress.curve = train->watched.live ? &train->watched.losses : NULL;
    watch_signals(context);
    if (train->setup != NULL && !options->common.quiet)
        hashattn_setup_watch_data(train->setup, show_data, train);
    status = train->resume == NULL
                 ? hashattn_train(train->setup, train->data, train->out, watch, &train->watched)
                 : hashattn_train_extend(context, train->resume, train->data, train->steps, watch,
                                         &train->watched);
    hashattn_setup_free(train->setup);
    data_read_free(&train->read);
    return finish(train, options, context, status);
}

/* True if a task of this name makes no forecasts. */
static bool draws_nothing(const char *name)
{
    hashattn_task_info task = {.struct_size = sizeof task};
    for (size_t i = 0; hashattn_task_get(i, &task); i++)
        if (strcmp(task.name, name) == 0)
            return !task.forecasts;
    return false; /* another message names the tasks */
}

/* --resume RUN --steps N */
static bool extends(struct train *train, const struct options *options)
{
    if (options->num_settings != 1 || strcmp(options->settings[0].name, "steps") != 0)
        return false;
    char *end;
    long long steps = strtoll(options->settings[0].text, &end, 10);
    train->steps = *end == '\0' && steps > 0 && steps <= 1000000000 ? steps : 0;
    return train->steps > 0;
}

static int check_usage(struct train *train, const struct options *options)
{
    if (train->resume != NULL) {
        if (options->num_operands > 0 || train->out != NULL || train->preset != NULL ||
            options->size != NULL || train->from != NULL || train->mechanism != NULL ||
            train->freeze != NULL || (options->num_settings > 0 && !extends(train, options)) ||
            options->common.seed_given || options->common.precision != NULL)
            return options_fail(
                options,
                "--resume continues with the options of the run, to --steps N in all and with the data at "
                "--data if these are given; it takes no task, --out, "
                "--preset, --size, --from, --attention, --freeze, --seed, --precision or other options of a "
                "setup");
        return EXIT_GOOD;
    }
    if (options->num_operands != 1)
        return options_fail(options, "train needs one operand, the task; got %zu", options->num_operands);
    if (options_check_task(options, options->operands[0]) != EXIT_GOOD)
        return EXIT_USAGE;
    if (train->draw != NULL && draws_nothing(options->operands[0]))
        return options_fail(options, "--draw draws forecasts, %s makes none", options->operands[0]);
    if (train->column != NULL && train->draw == NULL)
        return options_fail(options, "--column says what --draw draws");
    if (train->data == NULL)
        return options_fail(options, "train needs --data DIR");
    if (train->out == NULL)
        return options_fail(options, "train needs --out RUN");
    return EXIT_GOOD;
}

/* "accuracy=0.95" */
static int read_until(const struct options *options, const char *text, struct watched *watched)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof watched->until ||
        !options_read_number(equals + 1, &watched->until_value))
        return options_fail(options, "--until is '%.60s'; it must be METRIC=VALUE, as in accuracy=0.95",
                            text);
    memcpy(watched->until, text, (size_t)(equals - text));
    return EXIT_GOOD;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct train train = {0};
    struct options options;
    const char *until = NULL;
    options_begin(&options, self);
    options_add_text(&options, "data", &train.data, "DIR",
                     "directory of the data set, or its only file; with --resume, where it was moved");
    options_add_text(&options, "out", &train.out, "RUN", "directory of the run, must not exist yet");
    options_add_text(
        &options, "attention", &train.mechanism, "NAME",
        "mechanism, see info (default yoso). A comma list divides the heads of a layer, as in "
        "local*5,lha*5; / separates layers, and the last list holds for all further layers. An option sets "
        "every mechanism that has it; --lha.num-buckets sets one");
    options_add_preset(&options, &train.preset, argv[1]);
    options_add_text(
        &options, "from", &train.from, "DIR",
        "start from this run or checkpoint (BERT, RoBERTa and kin, YOSO): its architecture, attention, "
        "tokens and tensors; new heads start from the seed. From a checkpoint, or a run that comes from one, "
        "the defaults of text and glue are 3 epochs, batch 16, learning rate 5e-5, linear, weight decay "
        "0.01, dropout 0.1, and documents are cut at its positions");
    options_add_text(
        &options, "freeze", &train.freeze, "NAMES",
        "do not train these parameters, as in trunk or embeddings,encoder.layer.0; all-but-own trains only "
        "what mechanisms learn, such as the hashes of lha");
    options_add_text(&options, "resume", &train.resume, "RUN",
                     "continue this run, with --steps N to a new total, with --data if its data moved; the "
                     "result is bit for bit that of an uninterrupted run");
    options_add_text(&options, "until", &until, "METRIC=VALUE",
                     "stop when this validation metric is reached, as in accuracy=0.95 or perplexity=20");
    options_add_number(&options, "max-seconds", &train.watched.max_seconds, "T",
                       "save and stop after this time", 0, 1e9);
    options_add_switch(&options, "live", &train.live,
                       "show the loss as a curve beside the progress bar, and at the end in one line");
    options_add_text(
        &options, "draw", &train.draw, "FILE",
        "for a forecast: at the end, draw truth and forecast of the last validation window, as PNG if "
        "FILE ends in .png, otherwise as SVG");
    options_only_forecasts(&options, argv[1]);
    options_add_text(&options, "column", &train.column, "NAME", "the column to draw (default: the last one)");
    options_only_forecasts(&options, argv[1]);
    options_add_switch(&options, "profile", &train.profile,
                       "print where the time of the steps went and how busy the threads were");
    options_add_ranks(&options);
    options_add_mechanisms(&options);
    options_add_tasks(&options, NULL, argv[1]);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    train.watched.live = train.live;
    code = check_usage(&train, &options);
    if (code == EXIT_GOOD && until != NULL)
        code = read_until(&options, until, &train.watched);
    if (code != EXIT_GOOD)
        return code;
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&train, &options, context);
    tool_close(context);
    return code;
}

const struct command command_train = {
    .name = "train",
    .operands = "TASK",
    .summary = "Trains a model on a data set, or continues with --resume RUN (defaults: train TASK --help)",
    .example =
        "  hashattn data needle --out needles --train 5000 --valid 200 --seq-len 128 --marks 8\n"
        "  hashattn train needle --data needles --attention yoso --steps 100 --out run\n"
        "  hashattn train --help > text.txt && hashattn info >> text.txt\n"
        "  hashattn train lm --data text.txt --attention softmax --seq-len 64 --steps 20 --out model\n",
    .run = run,
};
