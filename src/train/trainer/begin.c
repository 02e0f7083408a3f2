/* Begins a training: makes the directory and the first state of a new run, or reads the state of an old one.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/product.h"
#include "models/model_io.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_ranks.h"
#include "train/schedule.h"
#include "train/trainer/trainer_parts.h"

/* ---- making and freeing ---- */

static void trainer_close(struct trainer *t)
{
    origin_report_free(&t->origin);
    dataset_free(t->host, &t->valid);
    memory_free(t->host, t->drawn);
    stepper_close(&t->stepper);
    lock_release(&t->lock);
}

static int rising(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Which examples are evaluated, in the order of the file. */
static hashattn_status draw_valid(struct trainer *t)
{
    void *block;
    TRY(memory_new(t->host, t->valid.count, sizeof *t->drawn, "drawn examples", &block));
    t->drawn = block;
    random_permutation(random_key((uint64_t)t->options->seed, RANDOM_EVALUATION, 1), t->drawn,
                       t->valid.count);
    qsort(t->drawn, t->num_valid, sizeof *t->drawn, rising);
    return HASHATTN_OK;
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
    return t->num_valid < t->valid.count && !config->facts.first_reading ? draw_valid(t) : HASHATTN_OK;
}

/* The weights of a class sum to the same for every class, and all weights to the number of examples. */
static hashattn_status balance_classes(struct trainer *t)
{
    struct host *host = t->host;
    struct dataset *train = &t->stepper.train;
    struct target_set *set = &train->targets[0];
    size_t classes = t->config->facts.num_classes, present = 0, labelled = 0;
    void *block;
    if (t->options->class_weight == WEIGHT_NONE)
        return HASHATTN_OK;
    FAIL_IF(train->num_targets != 1 || set->ids == NULL || set->weights == NULL ||
                set->kind != TARGETS_EXAMPLE,
            host, HASHATTN_INVALID,
            "training: `class_weight` is balanced, and the examples of %s have no classes",
            t->config->task->name);
    TRY(memory_new_zeroed(host, classes, sizeof(size_t), "sizes of classes", &block));
    size_t *counts = block;
    for (size_t i = 0; i < train->count; i++)
        counts[set->ids[i]] += set->weights[i] > 0;
    for (size_t c = 0; c < classes; c++) {
        present += counts[c] > 0;
        labelled += counts[c];
    }
    for (size_t i = 0; i < train->count; i++)
        if (set->weights[i] > 0)
            set->weights[i] = (float)((double)labelled / ((double)present * (double)counts[set->ids[i]]));
    set->scaled = true;
    memory_free(host, block);
    return HASHATTN_OK;
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
    t->host->note[0] = '\0';
    TRY(stepper_open(t->host, setup, t->config, &t->stepper));
    TRY(load_valid(t));
    t->state.train = fingerprint_of(&t->stepper.train);
    t->state.valid = fingerprint_of(&t->valid);
    snprintf(t->note, sizeof t->note, "%s", t->host->note); /* of a table that was read */
    return balance_classes(t);
}

/* Opens everything but the values. Ranks with other options or data fail here, before anything is
   computed. */
static hashattn_status trainer_open(struct trainer *t)
{
    TRY(comm_agree(t->host, comm_of_run(t), trainer_open_alone(t)));
    return ranks_check(t->host, comm_of_run(t), t->config, &t->state);
}

/* ---- a new run ---- */

static void note_origin(struct trainer *t, int64_t last_step)
{
    const struct origin_report *report = &t->origin;
    char positions[80] = "", last[80] = "";
    if (last_step >= 0)
        snprintf(last, sizeof last, " (no best model yet: the last parameters, of step %lld)",
                 (long long)last_step);
    if (report->positions > 0)
        snprintf(positions, sizeof positions, ", %zu positions %s %zu", report->stored_positions,
                 report->positions < report->stored_positions                 ? "cut to"
                 : t->config->training.extend_positions == EXTEND_INTERPOLATE ? "interpolated to"
                                                                              : "repeated to",
                 report->positions);
    size_t used = strlen(t->note);
    snprintf(t->note + used, sizeof t->note - used, "%s", used > 0 ? "; " : "");
    used = strlen(t->note);
    snprintf(t->note + used, sizeof t->note - used,
             "starts from %.300s%s: %zu tensors taken%s, %zu new, %zu dropped (log.jsonl names them)",
             t->config->from, last, report->taken, positions, json_count(report->anew),
             json_count(report->dropped));
}

static hashattn_status values_of_origin(struct trainer *t)
{
    struct origin origin;
    TRY(origin_open(t->host, t->config->from, &origin));
    hashattn_status status = origin_values(t->host, &origin, t->stepper.model, &t->config->facts,
                                           (enum extend_positions)t->config->training.extend_positions,
                                           (uint64_t)t->options->seed, t->stepper.values, &t->origin);
    int64_t last_step = origin.last_step;
    origin_close(t->host, &origin);
    if (status == HASHATTN_OK)
        note_origin(t, last_step);
    return status;
}

static hashattn_status first_values(struct trainer *t)
{
    if (t->config->from[0] == '\0')
        params_start(t->stepper.params, (uint64_t)t->options->seed, t->stepper.values);
    else
        TRY(values_of_origin(t));
    return trainer_check_finite(t);
}

/* Everything is read. From now on a stop is left to the callback, which ends the training after a save. */
static void reading_ends(struct trainer *t)
{
    if (t->setup->begun != NULL)
        *t->setup->begun = 1;
}

static hashattn_status broadcast_state(struct trainer *t)
{
    const struct train_blocks blocks = saved_blocks(t);
    return ranks_broadcast_state(t->host, comm_of_run(t), &t->state, &blocks, t->stepper.params->total);
}

/* On a file system without locks the callback gets a warning. */
static hashattn_status lock_run(struct trainer *t)
{
    hashattn_status status = run_folder_lock(t->host, t->run, &t->lock);
    if (status != HASHATTN_REFUSED)
        return status;
    host_prefix(t->host, "nothing keeps a second process from training this run");
    trainer_warn(t);
    return HASHATTN_OK;
}

static hashattn_status check_new(struct trainer *t)
{
    return run_folder_check_new(t->host, t->run);
}

/* Without parameters one step evaluates all there is. */
static void shorten(struct trainer *t)
{
    struct train_options *options = &t->config->training;
    size_t used = strlen(t->note);
    if (t->stepper.params->total > 0)
        return;
    options->steps = options->eval_every = options->save_every = 1;
    options->warmup = 0;
    options->epochs = 0;
    snprintf(t->note + used, sizeof t->note - used, "%sno parameters: nothing is trained, one step evaluates",
             used > 0 ? "; " : "");
}

static hashattn_status tell_read(struct trainer *t)
{
    const struct train_setup *setup = t->setup;
    if (setup->read == NULL)
        return HASHATTN_OK;
    TRY(setup->read(t->host, setup->read_user, SPLIT_TRAIN, &t->stepper.train));
    return setup->read(t->host, setup->read_user, SPLIT_VALID, &t->valid);
}

static hashattn_status begin_new(struct trainer *t)
{
    TRY(run_config_check(t->host, t->config));
    return first_values(t);
}

/* Makes the directory with its first state, of step 0, so that an unwritable disk is found at once. */
static hashattn_status make_folder(struct trainer *t)
{
    TRY(file_make_directory(t->host, t->run, false));
    hashattn_status status = lock_run(t);
    if (status == HASHATTN_OK)
        status = run_config_save(t->host, t->run, t->config);
    if (status == HASHATTN_OK)
        status = trainer_write_state(t);
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
    shorten(t);
    TRY_DONE(by_writer(t, tell_read));
    TRY_DONE(by_writer(t, begin_new));
    reading_ends(t);
    TRY_DONE(by_writer(t, make_folder));
    TRY_DONE(broadcast_state(t));
    trainer_log_visit(t, "start");
    TRY_DONE(trainer_loop(t));
done:
    trainer_close(t);
    return status;
}

/* ---- an old run ---- */

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

/* A best model that was lost must not keep the next one from being written. Until then the last parameters
   serve. A step that was evaluated is evaluated again, so that a finished run gets its model back. */
static hashattn_status check_best(struct trainer *t)
{
    char path[FILE_PATH];
    const struct model_block block = {"", NULL, NULL};
    if (t->state.best_step < 0)
        return HASHATTN_OK;
    TRY(file_join(t->host, t->run, "model.safetensors", path, sizeof path));
    hashattn_status status = model_check_file(t->host, path, t->stepper.params, &block, 1);
    if (status != HASHATTN_BAD_FILE)
        return status;
    host_prefix(t->host, "the best model is lost, and the next one evaluated takes its place");
    trainer_warn(t);
    file_remove(path);
    t->state.evaluated = t->state.best_step = -1;
    for (size_t i = 0; i < MODEL_METRICS; i++)
        t->state.best[i] = NAN;
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
    FAIL_IF(t->extended_from > 0 && state->step > t->options->steps, t->host, HASHATTN_INVALID,
            "%.300s has done %lld steps; as the new total, %lld is too few", t->run, (long long)state->step,
            (long long)t->options->steps);
    FAIL_IF(state->step > t->options->steps, t->host, HASHATTN_BAD_FILE,
            "%.300s/trainer.json is of step %lld, config.json has %lld steps", t->run, (long long)state->step,
            (long long)t->options->steps);
    if (strcmp(state->kernels, fresh.kernels) != 0 || strcmp(state->product, fresh.product) != 0) {
        host_fail(
            t->host, HASHATTN_OK,
            "this run was computed with %s and %s and goes on with %s and %s: the last bits of its numbers "
            "will differ",
            state->kernels, state->product, fresh.kernels, fresh.product);
        trainer_warn(t);
        memcpy(state->kernels, fresh.kernels, sizeof state->kernels);
        memcpy(state->product, fresh.product, sizeof state->product);
    }
    return check_best(t);
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
    if (run_folder_has_state(t->host, t->run))
        return load_state(t);
    TRY(first_values(t));
    return trainer_write_state(t);
}

static hashattn_status begin_check(struct trainer *t)
{
    TRY(lock_run(t));
    return run_folder_has_state(t->host, t->run) ? check_state(t) : HASHATTN_OK;
}

/* Other steps: the learning rate goes on as if they had been the steps from the beginning. */
static void note_extension(struct trainer *t)
{
    size_t used = strlen(t->note);
    snprintf(t->note + used, sizeof t->note - used,
             "%ssteps are %lld instead of %lld: from step %lld on, the learning rate is that of a schedule "
             "%s of %lld steps",
             used > 0 ? "; " : "", (long long)t->options->steps, (long long)t->extended_from,
             (long long)t->state.step, schedule_names[t->options->schedule], (long long)t->options->steps);
}

/* One file has all that an extension changes, so that a kill leaves the run as it was or extended. */
static hashattn_status keep_config(struct trainer *t)
{
    TRY(trainer_check_lock(t));
    return run_config_save(t->host, t->run, t->config);
}

hashattn_status train_resume(struct host *host, const struct train_setup *setup, const char *run,
                             int64_t steps)
{
    struct run_config config;
    memset(&config, 0, sizeof config);
    hashattn_status status = run_folder_check_old(host, run);
    if (status == HASHATTN_OK)
        status = run_config_load(host, run, &config);
    if (status == HASHATTN_OK && setup->data != NULL)
        status = run_config_set_data(host, &config, setup->data); /* compared when they are read */
    struct trainer trainer = trainer_of(host, setup, &config, run), *t = &trainer;
    TRY_DONE(comm_agree(host, setup->comm, status));
    if (steps > 0 && steps != config.training.steps) {
        t->extended_from = config.training.steps;
        config.training.steps = steps;
        config.training.epochs = 0; /* steps count now */
    }
    TRY_DONE(by_writer(t, begin_check));
    TRY_DONE(trainer_open(t));
    bool begun = is_writer(t) && run_folder_has_state(host, run);
    TRY_DONE(by_writer(t, begin_again));
    TRY_DONE(broadcast_state(t));
    if (t->extended_from > 0) {
        config.extended_at = t->state.step;
        if (is_writer(t))
            note_extension(t);
    }
    if (t->extended_from > 0 || setup->data != NULL)
        TRY_DONE(by_writer(t, keep_config));
    reading_ends(t);
    if (is_writer(t))
        run_folder_drop_stopped(host, run);
    if (is_writer(t) && run_log_trim(host, run, t->state.step) != HASHATTN_OK)
        trainer_warn(t);
    trainer_log_visit(t, begun ? "resume" : "start");
    TRY_DONE(trainer_loop(t));
done:
    trainer_close(t);
    run_config_free(host, &config);
    return status;
}
