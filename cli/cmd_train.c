/* `train`: trains an encoder on a task, with words and a bar on stderr; leaves cleanly on the first SIGINT or
   SIGTERM, at a wanted accuracy or after a time, always saved. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/json_out.h"
#include "cli/profile_out.h"
#include "cli/progress.h"

/* Set by the first signal; the second one kills, as if there were no handler. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
    signal(number, SIG_DFL);
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

struct watched {
    struct progress progress;
    double until_accuracy, max_seconds; /* 0: no such end */
    double begun_seconds;               /* of the run, when this process took it up; -1: not yet told */
    const char *stopped_by;             /* "steps", "accuracy", "time" or "signal" */
    hashattn_progress last, evaluated;  /* last told; last end of an evaluation */
    int64_t steps_here;                 /* done by this process */
    bool told, has_evaluated;
    char warning[300];
};

static void say_evaluation(struct watched *watched, const hashattn_progress *now)
{
    if (now->next_token) {
        progress_words(
            &watched->progress,
            "step %lld/%lld  loss %.4f  accuracy %.4f  valid loss %.4f  valid perplexity %.2f  best "
            "%.2f  %.0f tokens/s",
            (long long)now->step, (long long)now->steps, now->loss, now->accuracy, now->valid_loss,
            exp(now->valid_loss), exp(now->best_loss), now->tokens_per_second);
        return;
    }
    progress_words(
        &watched->progress,
        "step %lld/%lld  loss %.4f  accuracy %.4f  valid loss %.4f  valid accuracy %.4f  best %.4f  "
        "%.0f tokens/s",
        (long long)now->step, (long long)now->steps, now->loss, now->accuracy, now->valid_loss,
        now->valid_accuracy, now->best_accuracy, now->tokens_per_second);
}

static int watch(void *user, const hashattn_progress *now)
{
    struct watched *watched = user;
    if (watched->begun_seconds < 0)
        watched->begun_seconds = now->seconds;
    watched->steps_here += now->step > watched->last.step && watched->told;
    if (!watched->told)
        watched->steps_here = 1;
    watched->told = true;
    watched->last = *now;
    watched->last.warning = NULL;
    if (now->warning != NULL && strcmp(now->warning, watched->warning) != 0) {
        snprintf(watched->warning, sizeof watched->warning, "%s", now->warning);
        progress_words(&watched->progress, "hashattn: cannot save now, will try again: %s", now->warning);
    }
    if (!isnan(now->valid_accuracy)) {
        watched->evaluated = watched->last;
        watched->has_evaluated = true;
        say_evaluation(watched, now);
    }
    char words[120];
    snprintf(words, sizeof words, "loss %.4f  accuracy %.3f  %.0f tokens/s", now->loss, now->accuracy,
             now->tokens_per_second);
    progress_show(&watched->progress, now->step, now->steps, words);
    if (stop_signal != 0)
        watched->stopped_by = "signal";
    else if (watched->until_accuracy > 0 && now->valid_accuracy >= watched->until_accuracy)
        watched->stopped_by = "accuracy";
    else if (watched->max_seconds > 0 && now->seconds - watched->begun_seconds >= watched->max_seconds)
        watched->stopped_by = "time";
    return watched->stopped_by != NULL;
}

struct train {
    const char *data, *preset, *mechanism, *out, *resume;
    int profile;
    struct watched watched;
};

/* NaN, which is written as null, for what was never told. */
static double or_null(bool told, double value)
{
    return told ? value : NAN;
}

static void report_json(const struct train *train, const struct watched *watched,
                        const hashattn_context *context, const char *run, const char *task)
{
    const hashattn_progress *last = &watched->last, *evaluated = &watched->evaluated;
    bool told = watched->told, valid = watched->has_evaluated;
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "run", run);
    json_out_text(&json, "task", task);
    json_out_number(&json, "steps", or_null(told, (double)last->step));
    json_out_number(&json, "seconds", or_null(told, last->seconds));
    json_out_number(&json, "tokens_per_second", or_null(told, last->tokens_per_second));
    json_out_number(&json, "loss", or_null(told, valid ? evaluated->loss : last->loss));
    json_out_number(&json, "valid_loss", or_null(valid, evaluated->valid_loss));
    json_out_number(&json, "valid_accuracy", or_null(valid, evaluated->valid_accuracy));
    if (last->next_token) {
        json_out_number(&json, "valid_perplexity", or_null(valid, exp(evaluated->valid_loss)));
        json_out_number(&json, "best_loss", or_null(told, last->best_loss));
    } else {
        json_out_number(&json, "best", or_null(told, last->best_accuracy));
    }
    json_out_number(&json, "saved_bytes", or_null(told, (double)last->saved_bytes));
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    json_out_text(&json, "stopped_by", watched->stopped_by == NULL ? "steps" : watched->stopped_by);
    if (train->profile)
        profile_json(&json, context, (size_t)watched->steps_here);
    json_out_end_object(&json);
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int finish(const struct train *train, const struct options *options, hashattn_context *context,
                  hashattn_status status)
{
    struct watched watched = train->watched;
    progress_end(&watched.progress);
    bool by_wish = status == HASHATTN_INTERRUPTED && watched.stopped_by != NULL &&
                   strcmp(watched.stopped_by, "signal") != 0;
    const char *run = train->resume != NULL ? train->resume : train->out;
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        return tool_fail_status(context, status);
    if (status == HASHATTN_OK)
        watched.stopped_by = NULL; /* the wish came with the last step */
    if (!watched.told)
        progress_words(&watched.progress, "nothing is left to do in %s", run);
    else if (by_wish)
        progress_words(&watched.progress, "stopped by %s at step %lld, saved in %s", watched.stopped_by,
                       (long long)watched.last.step, run);
    else if (status == HASHATTN_INTERRUPTED)
        progress_words(&watched.progress,
                       "interrupted at step %lld, saved in %s; go on with: hashattn train "
                       "--resume %s",
                       (long long)watched.last.step, run, run);
    else if (watched.last.next_token)
        progress_words(&watched.progress, "done: %lld steps in %.1f s, best perplexity %.2f, in %s",
                       (long long)watched.last.step, watched.last.seconds, exp(watched.last.best_loss), run);
    else
        progress_words(&watched.progress, "done: %lld steps in %.1f s, best accuracy %.4f, in %s",
                       (long long)watched.last.step, watched.last.seconds, watched.last.best_accuracy, run);
    if (train->profile && !options->common.quiet)
        profile_words(context, "ms of a step", (size_t)watched.steps_here);
    if (options->common.json)
        report_json(train, &watched, context, run, options->num_operands > 0 ? options->operands[0] : NULL);
    int code = tool_finish();
    return code != EXIT_GOOD || status == HASHATTN_OK || by_wish ? code : EXIT_STOPPED;
}

static int work(struct train *train, const struct options *options, hashattn_context *context)
{
    hashattn_setup *setup = NULL;
    hashattn_status status = HASHATTN_OK;
    if (train->resume == NULL) {
        status =
            options_setup(options, context, options->operands[0], train->preset, train->mechanism, &setup);
        if (status != HASHATTN_OK) {
            hashattn_setup_free(setup);
            return tool_fail_status(context, status);
        }
    }
    if (train->profile)
        status = hashattn_profile_start(context);
    if (status != HASHATTN_OK) {
        hashattn_setup_free(setup);
        return tool_fail_status(context, status);
    }
    train->watched.progress = progress_begin(options->common.quiet);
    train->watched.begun_seconds = -1;
    watch_signals();
    status = train->resume == NULL ? hashattn_train(setup, train->data, train->out, watch, &train->watched)
                                   : hashattn_train_resume(context, train->resume, watch, &train->watched);
    hashattn_setup_free(setup);
    return finish(train, options, context, status);
}

static int check_usage(const struct train *train, const struct options *options)
{
    if (train->resume != NULL) {
        if (options->num_operands > 0 || train->data != NULL || train->out != NULL || train->preset != NULL ||
            train->mechanism != NULL || options->num_settings > 0 || options->common.seed_given ||
            options->common.precision != NULL)
            return options_fail(
                options, "--resume goes on with the options of the run: give no task, --data, "
                         "--out, --preset, --attention, --seed, --precision nor options of a setup with it");
        return EXIT_GOOD;
    }
    if (options->num_operands != 1)
        return options_fail(options, "train needs one operand, the task; there are %zu",
                            options->num_operands);
    if (train->data == NULL)
        return options_fail(options, "train needs --data DIR");
    if (train->out == NULL)
        return options_fail(options, "train needs --out RUN");
    return EXIT_GOOD;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct train train = {0};
    struct options options;
    options_begin(&options, self);
    const struct option rows[] = {
        {"data", OPTION_TEXT, &train.data, "DIR", "directory of the data set", 0, 0},
        {"out", OPTION_TEXT, &train.out, "RUN", "directory of the run, which must not exist", 0, 0},
        {"attention", OPTION_TEXT, &train.mechanism, "NAME",
         "mechanism, one of those of info (default yoso); or several over the heads of a layer, "
         "local*5,lha*5, and lists of layers parted by /, the last for all that follow. An option sets every "
         "mechanism that has it, --lha.num-buckets that of one",
         0, 0},
        {"preset", OPTION_TEXT, &train.preset, "NAME",
         "lra: model and training of the released Long Range Arena configurations", 0, 0},
        {"resume", OPTION_TEXT, &train.resume, "RUN", "go on where this run stands, bit for bit", 0, 0},
        {"until-accuracy", OPTION_NUMBER, &train.watched.until_accuracy, "A",
         "stop when validation accuracy reaches it", 0, 1},
        {"max-seconds", OPTION_NUMBER, &train.watched.max_seconds, "T", "stop after this time, saved", 0,
         1e9},
        {"profile", OPTION_SWITCH, &train.profile, NULL,
         "show at the end where the time of the steps went, and how busy the threads were", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        options_add(&options, rows[i]);
    options_add_mechanisms(&options);
    options_add_tasks(&options, NULL, argc > 1 ? argv[1] : NULL);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    code = check_usage(&train, &options);
    if (code != EXIT_GOOD)
        return code;
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&train, &options, context);
    hashattn_context_free(context);
    return code;
}

const struct command command_train = {
    .name = "train",
    .operands = "TASK",
    .summary = "Trains an encoder on a data set; --resume RUN goes on (train TASK --help shows its defaults)",
    .example =
        "  hashattn data needle --out needles --train 5000 --valid 200 --seq-len 128 --marks 8\n"
        "  hashattn train needle --data needles --attention yoso --steps 100 --out run\n"
        "  mkdir texts && hashattn train --help > texts/train.txt && hashattn info >> texts/train.txt\n"
        "  hashattn train lm --data texts --attention softmax --seq-len 64 --steps 20 --out model\n",
    .run = run,
};
