/* Generating data, training and resuming: converts the setup to the run's config and calls the trainer.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/descriptions.h"
#include "api/floating.h"
#include "api/metrics.h"
#include "api/setup.h"
#include "base/file.h"
#include "train/run_folder.h"

hashattn_status hashattn_setup_generate(hashattn_setup *setup, const char *directory, const size_t counts[3],
                                        uint64_t seed)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct run_config *config = &setup->config;
    FAIL_IF(directory == NULL || counts == NULL, host, HASHATTN_INVALID, "%s is NULL",
            directory == NULL ? "directory" : "counts");
    FAIL_IF(config->task->generate == NULL, host, HASHATTN_REFUSED, "%s cannot be generated: it reads %s",
            config->task->name,
            config->task->prepare == NULL ? "your own files" : "your own texts, see hashattn_setup_prepare");
    bool is_new = !file_exists(directory);
    TRY(file_make_directory(host, directory, true));
    hashattn_status status = config->task->generate(host, config->task_options, directory, counts, seed);
    if (status != HASHATTN_OK && is_new)
        file_remove_directory(host, directory, (const char *const[]){NULL});
    return status;
}

/* Passes the trainer's progress to the public callback. */
struct bridge {
    hashattn_progress_callback *callback;
    void *user;
};

static bool tell(void *user, const struct train_event *event)
{
    const struct bridge *bridge = user;
    struct metric_list train, valid, best;
    const hashattn_progress progress = {.struct_size = sizeof progress,
                                        .step = event->step,
                                        .steps = event->steps,
                                        .train = metrics_give(event->model, event->train, false, &train),
                                        .valid = metrics_give(event->model, event->valid, true, &valid),
                                        .best = metrics_give(event->model, event->best, true, &best),
                                        .tokens_per_second = event->tokens_per_second,
                                        .seconds = event->seconds,
                                        .learning_rate = event->learning_rate,
                                        .saved_bytes = event->saved_bytes,
                                        .warning = event->warning,
                                        .note = event->note,
                                        .stopping = event->stopping,
                                        .step_loss = event->loss};
    return bridge->callback(bridge->user, &progress) != 0;
}

static hashattn_status tell_read(struct host *host, void *user, enum split split,
                                 const struct dataset *dataset)
{
    const struct hashattn_setup *setup = user;
    const struct run_config *config = &setup->config;
    bool dated = config->task->load_dated != NULL; /* the note of the first report says what its table has */
    return describe_part(host, &config->facts, dated ? NULL : config->facts.read, split, dataset,
                         setup->data_callback, setup->data_user);
}

static struct train_setup setup_of(struct hashattn_context *context, struct bridge *bridge)
{
    return (struct train_setup){.kernels = context->kernels,
                                .pool = context->pool,
                                .comm = &context->comm,
                                .callback = bridge->callback == NULL ? NULL : tell,
                                .user = bridge,
                                .profile = context->profile,
                                .begun = &context->training};
}

hashattn_status hashattn_train(hashattn_setup *setup, const char *data, const char *run,
                               hashattn_progress_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    FAIL_IF(data == NULL || run == NULL, host, HASHATTN_INVALID, "%s is NULL", data == NULL ? "data" : "run");
    FAIL_IF(
        setup->origin == NULL && setup->config.training.extend_positions != EXTEND_REPEAT, host,
        HASHATTN_INVALID,
        "training: `extend_positions` is interpolate, which needs the positions of a stored model to start "
        "from");
    struct comm *comm = &setup->context->comm;
    hashattn_status status = comm_rank(comm) == 0 ? run_folder_check_new(host, run) : HASHATTN_OK;
    if (status == HASHATTN_OK)
        status = setup_take_data(setup, data);
    TRY(comm_agree(host, comm, status));
    struct bridge bridge = {callback, user};
    struct train_setup down = setup_of(setup->context, &bridge);
    down.read = setup->data_callback == NULL ? NULL : tell_read;
    down.read_user = setup;
    status = train_run(host, &down, &setup->config, run);
    setup->context->training = 0;
    return status;
}

hashattn_status hashattn_train_resume(hashattn_context *context, const char *run,
                                      hashattn_progress_callback *callback, void *user)
{
    return hashattn_train_extend(context, run, NULL, 0, callback, user);
}

hashattn_status hashattn_train_extend(hashattn_context *context, const char *run, const char *data,
                                      int64_t steps, hashattn_progress_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(run == NULL, &context->host, HASHATTN_INVALID, "run is NULL");
    FAIL_IF(steps < 0 || steps > 1000000000, &context->host, HASHATTN_INVALID,
            "steps is %lld, allowed are 0 to 1000000000", (long long)steps);
    FAIL_IF(context->precision_given, &context->host, HASHATTN_INVALID,
            "`precision` is given, and a resumed training has that of its run");
    struct bridge bridge = {callback, user};
    struct train_setup down = setup_of(context, &bridge);
    down.data = data;
    hashattn_status status = train_resume(&context->host, &down, run, steps);
    context->training = 0;
    return status;
}

int hashattn_context_is_training(const hashattn_context *context)
{
    return context != NULL && context->training != 0;
}

int hashattn_run_is_training(const char *run)
{
    return run != NULL && run_folder_is_locked(run);
}
