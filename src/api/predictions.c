/* Predicting documents: a file, or the texts in memory, are read in parts, whose documents are predicted
   together. Names of files wait in a queue for the part that has them.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/floating.h"
#include "api/models.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "tasks/documents/document_names.h"
#include "tasks/documents/document_unread.h"
#include "tasks/documents/given_texts.h"
#include "train/run_ranks.h"

/* Documents that are read and predicted at once. Results do not depend on it. */
enum { PREDICTED = 256 };

struct prediction {
    struct hashattn_model *model;
    uint64_t seed;
    hashattn_predicted_callback *callback;
    void *user;
    int (*skip)(void *user, const char *message);
    size_t done, num_cut, num_skipped;
    float *probabilities;        /* (PREDICTED, classes) */
    struct document_names names; /* of documents that were read and not yet predicted */
};

static hashattn_status keep_name(struct host *host, void *context, const struct document_name *name)
{
    struct prediction *prediction = context;
    return document_names_keep(host, &prediction->names, name);
}

static hashattn_status skip_line(struct host *host, void *context)
{
    struct prediction *prediction = context;
    prediction->num_skipped++;
    FAIL_IF(prediction->skip(prediction->user, host->message) != 0, host, HASHATTN_INTERRUPTED,
            "stopped at bad line %zu", prediction->num_skipped);
    return HASHATTN_OK;
}

static size_t largest(const float *values, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

/* Passes the progress of a part on as that of the whole. */
static bool tell_part(void *user, const struct train_event *event)
{
    const struct prediction *prediction = user;
    const struct hashattn_model *model = prediction->model;
    return model->callback(model->user, prediction->done + (size_t)event->step,
                           prediction->done + (size_t)event->steps) != 0;
}

/* Numbers were standardised for the training. */
static void to_units(const struct task_facts *facts, float *scores, size_t count)
{
    for (size_t i = 0; facts->num_classes == 0 && facts->num_columns == 1 && i < count; i++)
        scores[i] = (float)(facts->columns[0].mean + facts->columns[0].deviation * (double)scores[i]);
}

/* Texts in memory and tasks of the library's own files name no documents. */
static hashattn_status give(struct host *host, struct prediction *prediction, const float *row,
                            size_t classes, const struct named *named)
{
    const hashattn_prediction own = {.struct_size = sizeof own,
                                     .document = prediction->done,
                                     .best_class = largest(row, classes),
                                     .probabilities = row,
                                     .file = named == NULL ? NULL : document_names_file(named),
                                     .id = named == NULL ? NULL : named->id,
                                     .id_is_number = named != NULL && named->id_is_number};
    prediction->done++;
    FAIL_IF(prediction->callback(prediction->user, &own) != 0, host, HASHATTN_INTERRUPTED,
            "stopped after document %zu", prediction->done);
    return HASHATTN_OK;
}

static hashattn_status predict_part(struct host *host, void *context, struct dataset *part)
{
    struct prediction *prediction = context;
    struct hashattn_model *model = prediction->model;
    struct train_setup setup = model_setup(model);
    struct evaluation result;
    size_t classes = model_outputs(model->net);
    setup.callback = model->callback == NULL ? NULL : tell_part;
    setup.user = prediction;
    TRY(ranks_check_set(host, setup.comm, part));
    TRY(evaluate_open(host, &setup, model->net, model->values, &model->session));
    TRY(evaluate(host, &setup, &model->session, part, (size_t)model->config.training.batch, prediction->seed,
                 prediction->probabilities, &result));
    to_units(&model->config.facts, prediction->probabilities, part->count);
    prediction->num_cut += part->num_cut;
    bool named = prediction->names.count >= part->count;
    for (size_t i = 0; i < part->count; i++)
        TRY(give(host, prediction, prediction->probabilities + i * classes, classes,
                 named ? &prediction->names.list[i] : NULL));
    if (named)
        document_names_drop(host, &prediction->names, part->count);
    return HASHATTN_OK;
}

/* Ranks read the files themselves. */
static hashattn_status check_paths(struct host *host, const struct hashattn_model *model,
                                   const char *const *paths, size_t num_paths)
{
    for (size_t i = 0; i < num_paths; i++) {
        FAIL_IF(paths[i] == NULL, host, HASHATTN_INVALID, "path is NULL");
        FAIL_IF(comm_size(&model->context->comm) > 1 && strcmp(paths[i], "-") == 0, host, HASHATTN_REFUSED,
                "standard input reaches one rank only: predict a file");
    }
    return HASHATTN_OK;
}

static hashattn_status check_task(struct host *host, const struct hashattn_model *model,
                                  const struct given_documents *given)
{
    const struct task *task = model->config.task;
    FAIL_IF(task->stream_file == NULL || model_outputs(model->net) == 0, host, HASHATTN_REFUSED,
            "%s has no files of documents to predict; %s", task->name,
            task->load_dated != NULL ? "it forecasts tables" : "eval reports its metrics");
    FAIL_IF(given->paths == NULL && task->stream_texts == NULL, host, HASHATTN_REFUSED,
            "a run of %s predicts files, not texts in memory", task->name);
    return HASHATTN_OK;
}

static hashattn_status read_given(struct host *host, const struct run_config *config,
                                  const struct given_documents *given, const struct dataset_stream *stream)
{
    const struct task *task = config->task;
    if (given->texts.count > 0)
        return task->stream_texts(host, config->task_options, &config->facts, &given->texts, stream);
    for (size_t i = 0; i < given->num_paths; i++)
        TRY(task->stream_file(host, config->task_options, &config->facts, given->paths[i], stream));
    return HASHATTN_OK;
}

static hashattn_status predict_given(struct hashattn_model *model, const struct given_documents *given,
                                     bool lines, struct prediction *prediction)
{
    struct host *host = &model->context->host;
    struct unread_files unread = {.count = 0};
    const struct dataset_stream stream = {.batch = PREDICTED,
                                          .lines = lines,
                                          .unread = &unread,
                                          .visit = predict_part,
                                          .name = keep_name,
                                          .skip = prediction->skip == NULL ? NULL : skip_line,
                                          .context = prediction};
    TRY(check_task(host, model, given));
    TRY(comm_agree(host, &model->context->comm, check_paths(host, model, given->paths, given->num_paths)));
    TRY(model_check_ranks(model, prediction->seed));
    host->note[0] = '\0';
    host->repaired = 0;
    void *block = NULL;
    hashattn_status status = comm_agree(host, &model->context->comm,
                                        memory_new(host, size_product(PREDICTED, model_outputs(model->net)),
                                                   sizeof(float), "probabilities", &block));
    prediction->probabilities = block;
    if (status == HASHATTN_OK)
        status = read_given(host, &model->config, given, &stream);
    if (status == HASHATTN_OK)
        unread_note(host, &unread);
    document_names_free(host, &prediction->names);
    memory_free(host, block);
    return status;
}

void hashattn_predict_options_default_sized(hashattn_predict_options *options, size_t struct_size)
{
    const hashattn_predict_options own = {.struct_size = sizeof own};
    version_fill_options(options, struct_size, &own, sizeof own);
}

static hashattn_status predict(hashattn_model *model, const struct given_documents *given,
                               const hashattn_predict_options *options, hashattn_predicted_callback *callback,
                               void *user, hashattn_predicted *counts)
{
    struct host *host = &model->context->host;
    hashattn_predict_options own = {.seed = (uint64_t)model->config.training.seed};
    FAIL_IF(callback == NULL, host, HASHATTN_INVALID, "callback is NULL");
    if (options != NULL)
        TRY(version_take(host, &own, sizeof own, options, first_sizes.predict_options,
                         "options of a prediction"));
    struct prediction prediction = {
        .model = model, .seed = own.seed, .callback = callback, .user = user, .skip = own.skip};
    TRY(predict_given(model, given, own.lines != 0, &prediction));
    const hashattn_predicted found = {.num_documents = prediction.done,
                                      .num_cut = prediction.num_cut,
                                      .num_skipped = prediction.num_skipped};
    if (counts != NULL)
        version_give(counts, &found, sizeof found);
    return HASHATTN_OK;
}

hashattn_status hashattn_model_predict(hashattn_model *model, const char *const *paths, size_t num_paths,
                                       const hashattn_predict_options *options,
                                       hashattn_predicted_callback *callback, void *user,
                                       hashattn_predicted *counts)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(paths == NULL, &model->context->host, HASHATTN_INVALID, "paths is NULL");
    const struct given_documents given = {.paths = paths, .num_paths = num_paths};
    return predict(model, &given, options, callback, user, counts);
}

hashattn_status hashattn_model_predict_texts(hashattn_model *model, const char *const *texts,
                                             const char *const *seconds, size_t num_texts,
                                             const hashattn_predict_options *options,
                                             hashattn_predicted_callback *callback, void *user,
                                             hashattn_predicted *counts)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(texts == NULL, &model->context->host, HASHATTN_INVALID, "texts is NULL");
    const struct given_documents given = {.texts = {texts, seconds, num_texts}};
    return predict(model, &given, options, callback, user, counts);
}

/* The callback of a single file, whose documents have no names. */
struct unnamed {
    hashattn_prediction_callback *callback;
    void *user;
};

static int give_unnamed(void *user, const hashattn_prediction *prediction)
{
    const struct unnamed *unnamed = user;
    return unnamed->callback(unnamed->user, prediction->document, prediction->best_class,
                             prediction->probabilities);
}

hashattn_status hashattn_model_predict_file(hashattn_model *model, const char *path, uint64_t seed,
                                            hashattn_prediction_callback *callback, void *user,
                                            size_t *num_cut)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct unnamed unnamed = {callback, user};
    struct host *host = &model->context->host;
    FAIL_IF(path == NULL || callback == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "callback");
    struct prediction prediction = {.model = model, .seed = seed, .callback = give_unnamed, .user = &unnamed};
    const struct given_documents given = {.paths = &path, .num_paths = 1};
    TRY(predict_given(model, &given, false, &prediction));
    if (num_cut != NULL)
        *num_cut = prediction.num_cut;
    return HASHATTN_OK;
}
