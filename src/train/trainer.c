/* The training loop: steps (step.c), and between them evaluations, saves and the callback, which may stop the
   run. An evaluation borrows the workspace of the steps.
   A failed save does not end the training: the callback gets a warning, and the next save tries again. Only a
   failure of the last save fails the run (NO_DISK). Earlier saves stay complete.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "kernels/product.h"
#include "models/model_io.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_ranks.h"
#include "train/start/origin.h"
#include "train/step.h"

enum { LOG_EVERY = 10 }; /* steps between two records */

struct trainer {
    struct host *host;
    const struct train_setup *setup;
    struct run_config *config;
    const struct train_options *options; /* of config */
    const char *run;

    struct lock lock;
    struct stepper stepper;
    struct dataset valid;
    size_t num_valid; /* examples per evaluation */

    struct train_state state;
    struct train_event event;
    bool changed;      /* the state on disk is older */
    bool stop;         /* the callback asked to stop */
    char warning[512]; /* for the next event; empty: none */
    char note[512];    /* the same */
    struct origin_report origin;
};

/* ---- ranks ---- */

static struct comm *comm_of_run(const struct trainer *t)
{
    return t->setup->comm;
}

/* Rank 0 owns the directory of the run. */
static bool is_writer(const struct trainer *t)
{
    return comm_rank(comm_of_run(t)) == 0;
}

/* Rank 0 does it, and all ranks return its status. */
static hashattn_status by_writer(struct trainer *t, hashattn_status (*work)(struct trainer *t))
{
    return comm_agree(t->host, comm_of_run(t), is_writer(t) ? work(t) : HASHATTN_OK);
}

/* ---- making and freeing ---- */

static void trainer_close(struct trainer *t)
{
    origin_report_free(&t->origin);
    dataset_free(t->host, &t->valid);
    stepper_close(&t->stepper);
    lock_release(&t->lock);
}

static hashattn_status load_valid(struct trainer *t)
{
    struct host *host = t->host;
    const struct run_config *config = t->config;
    TRY(config->task->load(host, config->task_options, &config->facts, config->data, SPLIT_VALID,
                           (uint64_t)t->options->seed, &t->valid));
    FAIL_IF(t->valid.count == 0, host, HASHATTN_BAD_FILE, "%.200s: the validation set has no example",
            config->data);
    TRY(evaluate_fit(host, t->stepper.model, &t->valid));
    size_t wanted = (size_t)t->options->eval_examples;
    t->num_valid = wanted > 0 && wanted < t->valid.count ? wanted : t->valid.count;
    return HASHATTN_OK;
}

static struct train_blocks saved_blocks(const struct trainer *t)
{
    return (struct train_blocks){
        .values = t->stepper.values, .m = t->stepper.optim.m, .v = t->stepper.optim.v};
}

/* Allocates nothing; trainer_close may be called from here on. */
static struct trainer trainer_of(struct host *host, const struct train_setup *setup,
                                 struct run_config *config, const char *run)
{
    return (struct trainer){.host = host,
                            .setup = setup,
                            .config = config,
                            .options = &config->training,
                            .run = run,
                            .lock = {-1},
                            .stepper = {.host = host}};
}

static hashattn_status trainer_open_alone(struct trainer *t)
{
    const struct train_setup *setup = t->setup;
    t->state.evaluated = t->state.best_step = -1;
    t->event.loss = NAN;
    for (size_t i = 0; i < MODEL_METRICS; i++)
        t->state.best[i] = NAN;
    snprintf(t->state.kernels, sizeof t->state.kernels, "%s", setup->kernels->name);
    product_library(t->state.product, sizeof t->state.product);
    TRY(stepper_open(t->host, setup, t->config, &t->stepper));
    TRY(load_valid(t));
    t->state.train = fingerprint_of(&t->stepper.train);
    t->state.valid = fingerprint_of(&t->valid);
    return HASHATTN_OK;
}

/* Opens everything but the values. Ranks with other options or data fail here, before anything is computed.
 */
static hashattn_status trainer_open(struct trainer *t)
{
    TRY(comm_agree(t->host, comm_of_run(t), trainer_open_alone(t)));
    return ranks_check(t->host, comm_of_run(t), t->config, &t->state);
}

/* ---- telling ---- */

static void warn(struct trainer *t)
{
    memcpy(t->warning, t->host->message, sizeof t->warning);
}

/* Turns a failed save into a warning, with the reason from the host. */
static void warn_of_save(struct trainer *t)
{
    host_prefix(t->host, "cannot save now, will try again");
    warn(t);
}

static void tell(struct trainer *t)
{
    const struct train_state *state = &t->state;
    struct train_event *event = &t->event;
    double running[MODEL_METRICS];
    model_metrics(t->stepper.model, state->running, running);
    event->step = state->step;
    event->steps = t->options->steps;
    event->model = t->stepper.model;
    event->train = running;
    event->best = state->best_step < 0 ? NULL : state->best;
    event->tokens_per_second =
        state->running_seconds > 0 ? (double)state->running_tokens / state->running_seconds : 0;
    event->seconds = state->seconds;
    event->warning = t->warning[0] != '\0' ? t->warning : NULL;
    event->note = t->note[0] != '\0' ? t->note : NULL;
    if (t->setup->callback != NULL && t->setup->callback(t->setup->user, event))
        t->stop = true;
    event->train = NULL;
    t->warning[0] = t->note[0] = '\0';
}

/* A failed write of the log is only a warning: the run needs nothing in it. */
static void log_append(struct trainer *t, struct run_record *record)
{
    if (run_record_append(record, t->run) != HASHATTN_OK)
        warn(t);
}

/* Where the values of the start come from. */
static void log_origin(struct trainer *t, struct run_record *record)
{
    struct origin_report *report = &t->origin;
    run_record_text(record, "from", t->config->from);
    run_record_int(record, "tensors_taken", (int64_t)report->taken);
    if (report->positions > 0) {
        run_record_int(record, "stored_positions", (int64_t)report->stored_positions);
        run_record_int(record, "positions", (int64_t)report->positions);
    }
    run_record_put(record, "tensors_new", report->anew);
    run_record_put(record, "tensors_dropped", report->dropped);
    report->anew = report->dropped = NULL;
}

static void log_visit(struct trainer *t, const char *what)
{
    if (!is_writer(t))
        return;
    struct run_record record = run_record_new(t->host, t->state.step);
    run_record_text(&record, "event", what);
    run_record_text(&record, "isa", t->state.kernels);
    run_record_text(&record, "product", t->state.product);
    run_record_text(&record, "precision", precision_names[t->config->model.precision]);
    run_record_int(&record, "ranks", comm_size(comm_of_run(t)));
    run_record_int(&record, "threads", pool_threads(t->setup->pool));
    run_record_int(&record, "parameters", (int64_t)params_count(t->stepper.params));
    if (t->origin.anew != NULL)
        log_origin(t, &record);
    log_append(t, &record);
}

/* Writes the metrics of a model, each with the prefix `word`. evaluated: metrics of an evaluation. */
static void put_metrics(struct run_record *record, const struct model *model, const char *word,
                        const double *values, bool evaluated)
{
    char key[METRIC_NAME + 8];
    for (size_t i = 0; i < model_num_metrics(model); i++) {
        const struct model_metric *metric = model_metric(model, i);
        snprintf(key, sizeof key, "%s%s", word, metric->name);
        if (evaluated ? !metric->training_only : !metric->overall)
            run_record_real(record, key, values[i]);
    }
}

/* The loss is that of this step, own losses included; metrics are means since the last evaluation. */
static void log_step(struct trainer *t, double loss, double norm)
{
    if (!is_writer(t))
        return;
    double running[MODEL_METRICS];
    struct run_record record = run_record_new(t->host, t->state.step);
    model_metrics(t->stepper.model, t->state.running, running);
    put_metrics(&record, t->stepper.model, "", running, false);
    run_record_real(&record, "loss", loss);
    run_record_real(&record, "learning_rate", t->event.learning_rate);
    run_record_real(&record, "gradient_norm", norm);
    run_record_real(&record, "tokens_per_second", t->event.tokens_per_second);
    run_record_real(&record, "seconds", t->state.seconds);
    run_record_int(&record, "saved_bytes", (int64_t)t->event.saved_bytes);
    run_record_int(&record, "rss_bytes", (int64_t)clock_peak_resident());
    log_append(t, &record);
}

/* Rows are classes, columns what they were taken for. */
static void put_confusion(struct run_record *record, const struct evaluation *found)
{
    struct json *rows = NULL;
    if (found->confused == 0 || record->status != HASHATTN_OK)
        return;
    record->status = json_new_array(record->host, &rows);
    for (size_t i = 0; i < found->confused && record->status == HASHATTN_OK; i++) {
        struct json *row;
        record->status = json_new_array(record->host, &row);
        for (size_t k = 0; k < found->confused && record->status == HASHATTN_OK; k++)
            record->status =
                json_put_int(record->host, row, NULL, (int64_t)found->confusion[i * found->confused + k]);
        if (record->status == HASHATTN_OK)
            record->status = json_put(record->host, rows, NULL, row);
        else
            json_free(row);
    }
    run_record_put(record, "confusion", rows);
}

static void log_evaluation(struct trainer *t, const struct evaluation *found)
{
    if (!is_writer(t))
        return;
    struct run_record record = run_record_new(t->host, t->state.step);
    const struct model *model = t->stepper.model;
    double running[MODEL_METRICS];
    model_metrics(model, t->state.running, running);
    put_metrics(&record, model, "mean_", running, false);
    put_metrics(&record, model, "valid_", found->metrics, true);
    for (size_t i = 0; i < model_num_baselines(model); i++) {
        char name[METRIC_NAME], key[METRIC_NAME + 8];
        model_baseline_name(model, i, name);
        snprintf(key, sizeof key, "valid_%s", name);
        run_record_real(&record, key, found->baselines[i]);
    }
    put_metrics(&record, model, "best_", t->state.best, true);
    put_confusion(&record, found);
    run_record_real(&record, "valid_seconds", found->seconds);
    run_record_real(&record, "seconds", t->state.seconds);
    run_record_int(&record, "rss_bytes", (int64_t)clock_peak_resident());
    log_append(t, &record);
}

/* ---- saving ---- */

/* A finite gradient can still produce an infinite value, which must not replace the last good state. */
static hashattn_status check_finite(struct trainer *t)
{
    const struct optim *optim = &t->stepper.optim;
    bool finite = isfinite(optim_norm(optim, t->stepper.values)) && isfinite(optim_norm(optim, optim->m)) &&
                  isfinite(optim_norm(optim, optim->v));
    FAIL_IF(!finite, t->host, HASHATTN_FAILED,
            "the parameters are not finite after step %lld of %lld: try a lower learning_rate (the last "
            "saved state is kept)",
            (long long)t->state.step, (long long)t->options->steps);
    return HASHATTN_OK;
}

static hashattn_status write_state(struct trainer *t)
{
    const struct train_blocks blocks = saved_blocks(t);
    return checkpoint_save(t->host, t->run, t->stepper.model, &blocks, &t->state);
}

static hashattn_status save_state(struct trainer *t)
{
    TRY(check_finite(t));
    profile_begin(t->setup->profile);
    hashattn_status status = by_writer(t, write_state);
    profile_lap(t->setup->profile, PROFILE_SAVING);
    if (status == HASHATTN_OK)
        t->changed = false;
    return status;
}

/* After another failure, saves what it can and keeps the message of that failure. */
static hashattn_status save_and_fail(struct trainer *t, hashattn_status status)
{
    char message[sizeof t->host->message];
    memcpy(message, t->host->message, sizeof message);
    if (t->changed && status != HASHATTN_FAILED)
        save_state(t);
    memcpy(t->host->message, message, sizeof message);
    return status;
}

/* ---- evaluating ---- */

static bool evaluation_due(const struct trainer *t)
{
    int64_t step = t->state.step;
    return step > 0 && step != t->state.evaluated &&
           (step % t->options->eval_every == 0 || step == t->options->steps);
}

/* The callback of an evaluation: the trainer's current event again. */
static bool still_evaluating(void *user, const struct train_event *event)
{
    (void)event;
    struct trainer *t = user;
    tell(t);
    return t->stop;
}

static hashattn_status best_save(struct trainer *t)
{
    char path[FILE_PATH];
    const struct model_block block = {"", t->stepper.values, NULL};
    const struct tensor_word words[] = {{"format", "pt"}, {"mechanism", t->config->model.plan.text}};
    TRY(file_join(t->host, t->run, "model.safetensors", path, sizeof path));
    return model_save(t->host, path, t->stepper.params, &block, 1, words, 2);
}

/* A metric without a value in `best`, as in runs of older versions, does not decide. */
static bool is_better(const struct model *model, const double *found, const double *best)
{
    double known[MODEL_METRICS];
    for (size_t i = 0; i < model_num_metrics(model); i++)
        known[i] = isnan(best[i]) ? found[i] : best[i];
    return model_is_better(model, found, known);
}

/* `best` describes the model on disk. A model that could not be written does not count, so the next good one
   does. */
static hashattn_status keep_if_best(struct trainer *t, const struct evaluation *found)
{
    struct train_state *state = &t->state;
    if (state->best_step >= 0 && !is_better(t->stepper.model, found->metrics, state->best))
        return HASHATTN_OK;
    TRY(by_writer(t, best_save));
    memcpy(state->best, found->metrics, sizeof state->best);
    state->best_step = state->step;
    return HASHATTN_OK;
}

static hashattn_status evaluate_now(struct trainer *t)
{
    struct evaluation found;
    const struct train_setup asking = {.kernels = t->setup->kernels,
                                       .pool = t->setup->pool,
                                       .comm = comm_of_run(t),
                                       .callback = still_evaluating,
                                       .user = t};
    double start = clock_seconds();
    profile_begin(t->setup->profile);
    hashattn_status status = evaluate_within(t->host, &asking, t->stepper.model, t->stepper.values, &t->valid,
                                             t->num_valid, (size_t)t->options->batch,
                                             (uint64_t)t->options->seed, NULL, &t->stepper.workspace, &found);
    t->state.seconds += clock_seconds() - start;
    profile_lap(t->setup->profile, PROFILE_EVALUATION);
    if (status == HASHATTN_INTERRUPTED) {
        t->stop = true; /* on all ranks, whichever asked; resuming evaluates */
        return HASHATTN_OK;
    }
    TRY(status);
    TRY(check_finite(t));
    status = keep_if_best(t, &found);
    if (status != HASHATTN_OK && t->state.step == t->options->steps)
        return status; /* not evaluated yet: resuming tries again */
    if (status != HASHATTN_OK)
        warn_of_save(t);
    t->state.evaluated = t->state.step;
    t->changed = true;
    log_evaluation(t, &found);
    t->event.valid = found.metrics;
    tell(t);
    t->event.valid = NULL;
    TRY(comm_any(t->host, comm_of_run(t), &t->stop));
    memset(t->state.running, 0, sizeof t->state.running);
    t->state.running_tokens = 0;
    t->state.running_seconds = 0;
    return HASHATTN_OK;
}

/* ---- a step ---- */

static hashattn_status step_once(struct trainer *t)
{
    struct train_state *state = &t->state;
    struct step_outcome outcome;
    double start = clock_seconds();
    TRY(stepper_run(&t->stepper, state->step, state->running, &outcome));
    state->step++;
    t->changed = true;
    if (outcome.saved_bytes > t->event.saved_bytes)
        t->event.saved_bytes = outcome.saved_bytes;
    t->event.learning_rate = outcome.rate;
    t->event.loss = outcome.loss;
    double seconds = clock_seconds() - start;
    state->running_tokens += outcome.tokens;
    state->running_seconds += seconds;
    state->seconds += seconds;
    tell(t);
    if (state->step % LOG_EVERY == 0)
        log_step(t, outcome.loss, outcome.norm);
    profile_lap(t->setup->profile, PROFILE_SAVING);
    return comm_any(t->host, comm_of_run(t), &t->stop);
}

/* ---- the loop ---- */

static hashattn_status loop(struct trainer *t)
{
    const struct train_options *options = t->options;
    for (;;) {
        if (!t->stop && evaluation_due(t)) {
            hashattn_status status = evaluate_now(t);
            if (status != HASHATTN_OK)
                return save_and_fail(t, status);
        }
        bool finished = t->state.step == options->steps && !evaluation_due(t);
        if (t->changed && (finished || t->stop))
            TRY(save_state(t));
        if (finished)
            return HASHATTN_OK;
        FAIL_IF(t->stop, t->host, HASHATTN_INTERRUPTED, "stopped after step %lld of %lld and saved in %.300s",
                (long long)t->state.step, (long long)options->steps, t->run);
        if (t->changed && t->state.step % options->save_every == 0) {
            hashattn_status status = save_state(t);
            if (status == HASHATTN_FAILED)
                return status;
            if (status != HASHATTN_OK)
                warn_of_save(t);
        }
        TRY(step_once(t));
    }
}

static void note_origin(struct trainer *t)
{
    const struct origin_report *report = &t->origin;
    char positions[100] = "";
    if (report->positions > 0)
        snprintf(positions, sizeof positions, ", %zu positions %s %zu", report->stored_positions,
                 report->positions < report->stored_positions ? "cut to" : "repeated to", report->positions);
    snprintf(t->note, sizeof t->note,
             "starts from %.300s: %zu tensors taken%s, %zu new, %zu dropped (log.jsonl names them)",
             t->config->from, report->taken, positions, json_count(report->anew),
             json_count(report->dropped));
}

static hashattn_status first_values(struct trainer *t)
{
    uint64_t seed = (uint64_t)t->options->seed;
    struct origin origin;
    if (t->config->from[0] == '\0') {
        params_start(t->stepper.params, seed, t->stepper.values);
        return HASHATTN_OK;
    }
    TRY(origin_open(t->host, t->config->from, &origin));
    hashattn_status status = origin_values(t->host, &origin, t->stepper.model, &t->config->facts, seed,
                                           t->stepper.values, &t->origin);
    origin_close(t->host, &origin);
    if (status == HASHATTN_OK)
        note_origin(t);
    return status;
}

/* Saves the first state of a run, of step 0, so that an unwritable disk is found at once. */
static hashattn_status save_first(struct trainer *t)
{
    TRY(first_values(t));
    TRY(check_finite(t));
    return write_state(t);
}

static hashattn_status share_state(struct trainer *t)
{
    const struct train_blocks blocks = saved_blocks(t);
    return ranks_share_state(t->host, comm_of_run(t), &t->state, &blocks, t->stepper.params->total);
}

/* On a file system without locks the callback gets a warning. */
static hashattn_status lock_run(struct trainer *t)
{
    hashattn_status status = run_folder_lock(t->host, t->run, &t->lock);
    if (status != HASHATTN_REFUSED)
        return status;
    host_prefix(t->host, "nothing keeps a second process from training this run");
    warn(t);
    return HASHATTN_OK;
}

static hashattn_status check_new(struct trainer *t)
{
    return run_folder_check_new(t->host, t->run);
}

/* Makes the directory with its first state. */
static hashattn_status make_folder(struct trainer *t)
{
    TRY(file_make_directory(t->host, t->run, false));
    hashattn_status status = lock_run(t);
    if (status == HASHATTN_OK)
        status = run_config_save(t->host, t->run, t->config);
    if (status == HASHATTN_OK)
        status = save_first(t);
    if (status != HASHATTN_OK)
        run_folder_remove(t->host, t->run); /* it must not block the next attempt */
    return status;
}

hashattn_status train_run(struct host *host, const struct train_setup *setup, struct run_config *config,
                          const char *run)
{
    struct trainer trainer = trainer_of(host, setup, config, run), *t = &trainer;
    hashattn_status status;
    run_config_settle(setup->kernels, config);
    TRY(by_writer(t, check_new));
    TRY_DONE(trainer_open(t));
    TRY_DONE(by_writer(t, make_folder));
    TRY_DONE(share_state(t));
    log_visit(t, "start");
    TRY_DONE(loop(t));
done:
    trainer_close(t);
    return status;
}

/* ---- going on ---- */

static hashattn_status same_data(struct host *host, const char *directory, const char *split,
                                 const struct fingerprint *then, const struct fingerprint *now)
{
    FAIL_IF(then->examples != now->examples || then->tokens != now->tokens || then->hash != now->hash, host,
            HASHATTN_BAD_FILE,
            "%.200s: the %s set is not the one the run began with: then %llu examples, %llu tokens, hash "
            "%016llx, now %llu, %llu, %016llx",
            directory, split, (unsigned long long)then->examples, (unsigned long long)then->tokens,
            (unsigned long long)then->hash, (unsigned long long)now->examples,
            (unsigned long long)now->tokens, (unsigned long long)now->hash);
    return HASHATTN_OK;
}

/* Reads the state of the run, and checks that it can be resumed here. */
static hashattn_status load_state(struct trainer *t)
{
    const struct train_state fresh = t->state;
    struct train_state *state = &t->state;
    const struct train_blocks blocks = saved_blocks(t);
    TRY(checkpoint_load(t->host, t->run, t->stepper.model, &blocks, state));
    TRY(same_data(t->host, t->config->data, "training", &state->train, &fresh.train));
    TRY(same_data(t->host, t->config->data, "validation", &state->valid, &fresh.valid));
    FAIL_IF(state->step > t->options->steps, t->host, HASHATTN_BAD_FILE,
            "%.300s/trainer.json is of step %lld, config.json has %lld steps", t->run, (long long)state->step,
            (long long)t->options->steps);
    if (strcmp(state->kernels, fresh.kernels) != 0 || strcmp(state->product, fresh.product) != 0) {
        host_fail(
            t->host, HASHATTN_OK,
            "this run was computed with %s and %s and goes on with %s and %s: the last bits of its numbers "
            "will differ",
            state->kernels, state->product, fresh.kernels, fresh.product);
        warn(t);
        memcpy(state->kernels, fresh.kernels, sizeof state->kernels);
        memcpy(state->product, fresh.product, sizeof state->product);
    }
    return HASHATTN_OK;
}

/* Compares the files of the state with the config before memory is allocated as the config asks. */
static hashattn_status check_state(struct trainer *t)
{
    struct model *described;
    TRY(model_new(t->host, &t->config->model, &described));
    hashattn_status status = checkpoint_check(t->host, t->run, described);
    model_free(t->host, described);
    return status;
}

/* A run without a state was killed during its first save. */
static hashattn_status begin_again(struct trainer *t)
{
    return run_folder_has_state(t->host, t->run) ? load_state(t) : save_first(t);
}

static hashattn_status begin_check(struct trainer *t)
{
    TRY(lock_run(t));
    return run_folder_has_state(t->host, t->run) ? check_state(t) : HASHATTN_OK;
}

hashattn_status train_resume(struct host *host, const struct train_setup *setup, const char *run)
{
    struct run_config config;
    memset(&config, 0, sizeof config);
    hashattn_status status = run_folder_check_old(host, run);
    if (status == HASHATTN_OK)
        status = run_config_load(host, run, &config);
    struct trainer trainer = trainer_of(host, setup, &config, run), *t = &trainer;
    TRY_DONE(comm_agree(host, setup->comm, status));
    TRY_DONE(by_writer(t, begin_check));
    TRY_DONE(trainer_open(t));
    bool begun = is_writer(t) && run_folder_has_state(host, run);
    TRY_DONE(by_writer(t, begin_again));
    TRY_DONE(share_state(t));
    if (is_writer(t) && run_log_trim(host, run, t->state.step) != HASHATTN_OK)
        warn(t);
    log_visit(t, begun ? "resume" : "start");
    TRY_DONE(loop(t));
done:
    trainer_close(t);
    run_config_free(host, &config);
    return status;
}
