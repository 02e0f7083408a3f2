/* The training loop: steps (train/step.c), and between them evaluations, saves and the callback, which may
   stop the run. An evaluation borrows the memory of the steps. A failed save does not end the training:
   the callback gets a warning, and the next save tries again. Only a failure of the last save fails the run
   (NO_DISK), and one that finds another run in the place of this one (INVALID). Earlier saves stay complete.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "models/model_io.h"
#include "train/trainer/trainer_parts.h"

enum { LOG_EVERY = 10 }; /* steps between two records */

/* ---- saving ---- */

/* A finite gradient can still produce an infinite value, which must not replace the last good state. */
hashattn_status trainer_check_finite(struct trainer *t)
{
    const struct optim *optim = &t->stepper.optim;
    bool finite = isfinite(optim_norm(optim, t->stepper.values)) && isfinite(optim_norm(optim, optim->m)) &&
                  isfinite(optim_norm(optim, optim->v));
    FAIL_IF(!finite, t->host, HASHATTN_FAILED,
            "the parameters are not finite after step %lld of %lld: try a lower `learning_rate` (the last "
            "saved state is kept)",
            (long long)t->state.step, (long long)t->options->steps);
    return HASHATTN_OK;
}

hashattn_status trainer_write_state(struct trainer *t)
{
    const struct train_blocks blocks = saved_blocks(t);
    TRY(trainer_check_lock(t));
    return checkpoint_save(t->host, t->run, t->stepper.model, &blocks, &t->state);
}

static hashattn_status save_state(struct trainer *t)
{
    TRY(trainer_check_finite(t));
    profile_begin(t->setup->profile);
    hashattn_status status = by_writer(t, trainer_write_state);
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

/* No later save can succeed. */
static bool is_final(hashattn_status status)
{
    return status == HASHATTN_FAILED || status == HASHATTN_INVALID;
}

/* Turns a failed save into a warning, with the reason from the host. */
static void warn_of_save(struct trainer *t)
{
    host_prefix(t->host, "cannot save now, will try again");
    trainer_warn(t);
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
    trainer_tell(t);
    return t->stop;
}

static hashattn_status model_save_as(struct trainer *t, const char *name)
{
    char path[FILE_PATH];
    const struct model_block block = {"", t->stepper.values, NULL};
    const struct tensor_word words[] = {{"format", "pt"}, {"mechanism", t->config->model.plan.text}};
    TRY(trainer_check_lock(t));
    TRY(file_join(t->host, t->run, name, path, sizeof path));
    return model_save(t->host, path, t->stepper.params, &block, 1, words, 2);
}

static hashattn_status best_save(struct trainer *t)
{
    return model_save_as(t, "model.safetensors");
}

static hashattn_status stopped_save(struct trainer *t)
{
    return model_save_as(t, "stopped.safetensors");
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

static hashattn_status evaluate_state(struct trainer *t, struct evaluation *found)
{
    const struct train_setup asking = {.kernels = t->setup->kernels,
                                       .pool = t->setup->pool,
                                       .comm = comm_of_run(t),
                                       .sequence_parallel = t->options->sequence_parallel,
                                       .callback = still_evaluating,
                                       .user = t};
    double start = clock_seconds();
    profile_begin(t->setup->profile);
    stepper_pack(&t->stepper);
    hashattn_status status =
        evaluate_within(t->host, &asking, &t->stepper.session, &t->valid, t->drawn, t->num_valid,
                        (size_t)t->options->batch, (uint64_t)t->options->seed, NULL, found);
    t->state.seconds += clock_seconds() - start;
    profile_lap(t->setup->profile, PROFILE_EVALUATION);
    return status;
}

/* The last evaluation of a training that is stopped. It changes nothing of the state, so resuming goes on as
   an uninterrupted run; a model that is better than the best has a file of its own until then. */
static hashattn_status evaluate_at_stop(struct trainer *t)
{
    struct evaluation found;
    double seconds = t->state.seconds;
    t->stop = false;
    t->event.stopping = true;
    trainer_tell(t);                                  /* asks first */
    TRY(comm_any(t->host, comm_of_run(t), &t->stop)); /* all ranks evaluate, or none */
    hashattn_status status = t->stop ? HASHATTN_INTERRUPTED : evaluate_state(t, &found);
    t->state.seconds = seconds;
    if (status == HASHATTN_OK) {
        bool better = t->state.best_step >= 0 && is_better(t->stepper.model, found.metrics, t->state.best);
        if (better && by_writer(t, stopped_save) != HASHATTN_OK)
            warn_of_save(t);
        trainer_log_evaluation(t, &found);
        t->event.valid = found.metrics;
        trainer_tell(t);
        t->event.valid = NULL;
    }
    t->event.stopping = false;
    t->stop = true;
    return status == HASHATTN_INTERRUPTED ? HASHATTN_OK : status;
}

static hashattn_status evaluate_now(struct trainer *t)
{
    struct evaluation found;
    hashattn_status status = evaluate_state(t, &found);
    if (status == HASHATTN_INTERRUPTED) {
        t->stop = true; /* on all ranks, whichever asked; resuming evaluates */
        return HASHATTN_OK;
    }
    TRY(status);
    TRY(trainer_check_finite(t));
    status = keep_if_best(t, &found);
    if (is_final(status) || (status != HASHATTN_OK && t->state.step == t->options->steps))
        return status; /* not evaluated yet: resuming tries again */
    if (status != HASHATTN_OK)
        warn_of_save(t);
    t->state.evaluated = t->state.step;
    t->changed = true;
    trainer_log_evaluation(t, &found);
    t->event.valid = found.metrics;
    trainer_tell(t);
    t->event.valid = NULL;
    TRY(comm_any(t->host, comm_of_run(t), &t->stop));
    memset(t->state.running, 0, sizeof t->state.running);
    t->state.running_tokens = 0;
    t->state.running_seconds = 0;
    return HASHATTN_OK;
}

/* Too many evaluations without a better model. */
static bool is_vain(const struct trainer *t)
{
    const struct train_state *state = &t->state;
    int64_t extended_at = t->config->extended_at;
    int64_t since = state->best_step > extended_at ? state->best_step : extended_at;
    return t->options->patience > 0 && state->best_step >= 0 &&
           state->evaluated - since >= t->options->patience * t->options->eval_every;
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
    trainer_tell(t);
    if (state->step % LOG_EVERY == 0)
        trainer_log_step(t, outcome.loss, outcome.norm);
    profile_lap(t->setup->profile, PROFILE_SAVING);
    return comm_any(t->host, comm_of_run(t), &t->stop);
}

/* ---- the loop ---- */

hashattn_status trainer_loop(struct trainer *t)
{
    const struct train_options *options = t->options;
    for (;;) {
        if (!t->stop && evaluation_due(t)) {
            hashattn_status status = evaluate_now(t);
            if (status != HASHATTN_OK)
                return save_and_fail(t, status);
        }
        bool finished = (t->state.step == options->steps || is_vain(t)) && !evaluation_due(t);
        if (t->changed && (finished || t->stop))
            TRY(save_state(t));
        if (finished)
            return HASHATTN_OK;
        if (t->stop && t->state.step > 0 && t->state.step != t->state.evaluated)
            TRY(evaluate_at_stop(t));
        FAIL_IF(t->stop, t->host, HASHATTN_INTERRUPTED, "stopped after step %lld of %lld and saved in %.300s",
                (long long)t->state.step, (long long)options->steps, t->run);
        if (t->changed && t->state.step % options->save_every == 0) {
            hashattn_status status = save_state(t);
            if (is_final(status))
                return status;
            if (status != HASHATTN_OK)
                warn_of_save(t);
        }
        TRY(step_once(t));
    }
}
