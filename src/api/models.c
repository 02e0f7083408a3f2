/* Trained models: load a run, evaluate a split, compare two runs on it, predict a file.
   SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/floating.h"
#include "api/models.h"
#include "api/versions/versions.h"
#include "base/file.h"
#include "base/memory.h"
#include "models/model_io.h"
#include "train/checkpoint.h"
#include "train/compare/compare.h"
#include "train/inspect/inspect.h"
#include "train/run_ranks.h"

/* A config may claim any number of parameters, so check the file for them before allocating. */
static hashattn_status read_values(struct host *host, struct hashattn_model *model, const char *run)
{
    struct run_values found;
    TRY(run_values_find(host, run, &found));
    const struct params *params = model_params(model->net);
    struct model_block values = {"", NULL, NULL};
    void *block;
    TRY(model_check_file(host, found.path, params, &values, 1));
    TRY(memory_new(host, params->total, sizeof *model->values, "parameters", &block));
    values.values = model->values = block;
    model->last_step = found.last_step;
    return model_load(host, found.path, params, &values, 1);
}

hashattn_status hashattn_model_load(hashattn_context *context, const char *run, hashattn_model **out)
{
    FLOATING_DEFAULT;
    if (out != NULL)
        *out = NULL;
    if (context == NULL)
        return HASHATTN_INVALID; /* no context for a message */
    struct host *host = &context->host;
    FAIL_IF(out == NULL, host, HASHATTN_INVALID, "model is NULL");
    FAIL_IF(run == NULL, host, HASHATTN_INVALID, "run is NULL");
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "model", &block));
    struct hashattn_model *model = block;
    model->context = context;
    hashattn_status status;
    TRY_DONE(run_config_load(host, run, &model->config));
    if (context->precision_given)
        model->config.model.precision = (int)context->precision;
    TRY_DONE(model_new(host, &model->config.model, &model->net));
    TRY_DONE(read_values(host, model, run));
    *out = model;
done:
    if (status != HASHATTN_OK)
        hashattn_model_free(model);
    return status;
}

void hashattn_model_free(hashattn_model *model)
{
    if (model == NULL)
        return;
    struct host *host = &model->context->host;
    session_close(host, &model->session);
    memory_free(host, model->values);
    model_free(host, model->net);
    run_config_free(host, &model->config);
    memory_free(host, model);
}

/* An option that is being changed. */
struct change {
    struct hashattn_model *model;
    const char *name, *text;
};

/* Makes the model with the current options, if its parameters match those of the trained one. */
static hashattn_status renew_net(struct host *host, void *owner)
{
    const struct change *change = owner;
    struct hashattn_model *model = change->model;
    struct model *net;
    TRY(model_new(host, &model->config.model, &net));
    const struct params *now = model_params(net), *trained = model_params(model->net);
    bool same = now->num_rows == trained->num_rows && now->total == trained->total;
    struct model *unused = same ? model->net : net;
    if (same) {
        session_close(&model->context->host, &model->session);
        model->net = net;
    }
    size_t wanted = params_count(now), have = params_count(trained);
    model_free(host, unused);
    FAIL_IF(!same, host, HASHATTN_INVALID,
            "with %.60s %.60s the model has %zu parameters, the trained one has %zu", change->name,
            change->text, wanted, have);
    return HASHATTN_OK;
}

hashattn_status hashattn_model_set(hashattn_model *model, const char *name, const char *text)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct host *host = &model->context->host;
    FAIL_IF(name == NULL || text == NULL, host, HASHATTN_INVALID, "%s is NULL",
            name == NULL ? "the name of the option" : "the text of the option");
    struct change change = {model, name, text};
    return head_plan_change(host, &model->config.model.plan, name, text, renew_net, &change);
}

hashattn_status hashattn_model_positive(hashattn_model *model, const char *label)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct host *host = &model->context->host;
    struct model_objective *first = &model->config.model.objectives[0];
    const struct task_facts *facts = &model->config.facts;
    FAIL_IF(label == NULL, host, HASHATTN_INVALID, "the label is NULL");
    FAIL_IF(model_confused(model->net) == 0 && facts->num_classes == 0, host, HASHATTN_INVALID,
            "%s has no labels", model->config.task->name);
    size_t index = 0;
    while (index < facts->num_classes && strcmp(facts->labels[index], label) != 0)
        index++;
    char list[200];
    task_names_list(facts->labels, facts->num_classes, list, sizeof list);
    FAIL_IF(index == facts->num_classes, host, HASHATTN_INVALID, "the model has no label '%.60s'; it has: %s",
            label, list);
    int64_t before = first->positive;
    first->positive = (int64_t)index + 1;
    struct change change = {model, "positive", label};
    hashattn_status status = renew_net(host, &change);
    if (status != HASHATTN_OK)
        first->positive = before;
    return status;
}

/* The label of the metric "f1". */
static const char *positive_label(const struct run_config *config)
{
    const struct model_objective *first = &config->model.objectives[0];
    size_t classes = config->facts.num_classes, positive = (size_t)first->positive;
    if (positive == 0 && classes == 2 && first->objective->type == TARGET_ID)
        positive = 2;
    return classes == 0 || positive == 0 ? NULL : config->facts.labels[positive - 1];
}

void hashattn_model_describe(const hashattn_model *model, hashattn_model_info *info)
{
    const struct run_config *config = &model->config;
    const hashattn_model_info own = {
        .task = config->task->name,
        .mechanism = config->model.plan.text,
        .precision = precision_names[config->model.precision],
        .has_buckets = inspect_finds_buckets(model->net),
        .data = config->data,
        .num_params = params_count(model_params(model->net)),
        .num_classes = model_outputs(model->net),
        .max_len = config->facts.max_len,
        .seed = (uint64_t)config->training.seed,
        .predicts = config->task->stream_file != NULL && model_outputs(model->net) > 0,
        .forecasts = config->task->load_dated != NULL,
        .last_step = model->last_step,
        .label_sets = config->facts.num_classes > 0 && config->facts.num_objectives == 1 &&
                      strcmp(config->facts.objectives[0].name, "label_set") == 0,
        .positive = positive_label(config)};
    version_give(info, &own, sizeof own);
}

const char *hashattn_model_label(const hashattn_model *model, size_t index)
{
    return index < model->config.facts.num_classes ? model->config.facts.labels[index] : NULL;
}

void hashattn_model_watch(hashattn_model *model, hashattn_evaluation_callback *callback, void *user)
{
    if (model == NULL)
        return;
    model->callback = callback;
    model->user = user;
}

/* Passes the progress of an evaluation to the public callback. */
static bool tell_done(void *user, const struct train_event *event)
{
    const struct hashattn_model *model = user;
    return model->callback(model->user, (size_t)event->step, (size_t)event->steps) != 0;
}

/* Ranks share sequences as in training if their number allows it. */
struct train_setup model_setup(struct hashattn_model *model)
{
    int64_t shared = model->config.training.sequence_parallel, ranks = comm_size(&model->context->comm);
    return (struct train_setup){.kernels = model->context->kernels,
                                .pool = model->context->pool,
                                .comm = &model->context->comm,
                                .sequence_parallel = ranks % shared == 0 ? shared : 1,
                                .callback = model->callback == NULL ? NULL : tell_done,
                                .user = model};
}

hashattn_status model_check_ranks(struct hashattn_model *model, uint64_t seed)
{
    struct hashattn_context *context = model->context;
    return ranks_check_model(&context->host, &context->comm, &model->config, model->values,
                             model_params(model->net)->total, seed);
}

hashattn_status model_split(struct host *host, const char *name, enum split *split)
{
    for (*split = SPLIT_TRAIN; *split < SPLIT_COUNT; (*split)++)
        if (strcmp(split_name(*split), name) == 0)
            return HASHATTN_OK;
    return host_fail(host, HASHATTN_INVALID, "`split` is '%.60s', allowed are train, valid, test", name);
}

/* A file is a data set of its own, which is not split, unless it is the one of the training. */
static bool is_other_file(const char *data, const char *recorded)
{
    char absolute[PATH_MAX];
    return file_exists(data) && !file_is_directory(data) &&
           (realpath(data, absolute) == NULL || strcmp(absolute, recorded) != 0);
}

/* Another file than the recorded one is read whole. */
static enum split split_in(const struct run_config *config, const char *data, enum split split)
{
    return data != NULL && config->task->lone_files && is_other_file(data, config->data) ? SPLIT_COUNT
                                                                                         : split;
}

/* data NULL: the recorded directory. */
static hashattn_status load_split(const struct hashattn_model *model, const char *data, const char *split,
                                  struct dataset *dataset)
{
    struct host *host = &model->context->host;
    const struct run_config *config = &model->config;
    enum split which;
    TRY(model_split(host, split, &which));
    which = split_in(config, data, which);
    TRY(run_config_data(host, config, &data));
    return config->task->load(host, config->task_options, &config->facts, data, which,
                              (uint64_t)config->training.seed, dataset);
}

hashattn_status hashattn_model_evaluate(hashattn_model *model, const char *data, const char *split,
                                        uint64_t seed, hashattn_evaluation *evaluation)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct host *host = &model->context->host;
    FAIL_IF(split == NULL || evaluation == NULL, host, HASHATTN_INVALID, "%s is NULL",
            split == NULL ? "split" : "evaluation");
    const struct run_config *config = &model->config;
    struct dataset dataset = {0};
    const struct train_setup setup = model_setup(model);
    hashattn_status status = comm_agree(host, setup.comm, load_split(model, data, split, &dataset));
    struct evaluation result;
    if (status == HASHATTN_OK)
        status = model_check_ranks(model, seed);
    if (status == HASHATTN_OK)
        status = ranks_check_set(host, setup.comm, &dataset);
    if (status == HASHATTN_OK)
        status = evaluate_open(host, &setup, model->net, model->values, &model->session);
    if (status == HASHATTN_OK)
        status = evaluate(host, &setup, &model->session, &dataset, (size_t)config->training.batch, seed, NULL,
                          &result);
    dataset_free(host, &dataset);
    if (status != HASHATTN_OK)
        return status;
    const hashattn_evaluation own = {.metrics = metrics_give_evaluation(model->net, &result, &model->metrics),
                                     .examples = result.examples,
                                     .num_cut = result.num_cut,
                                     .seconds = result.seconds,
                                     .tokens_per_second = result.tokens_per_second,
                                     .tokens = result.tokens,
                                     .num_unknown = result.num_unknown,
                                     .confusion = result.confused > 0 ? model->confusion : NULL,
                                     .num_confused = result.confused,
                                     .label_counts = result.labels > 0 ? model->label_counts : NULL,
                                     .num_labels = result.labels};
    memcpy(model->confusion, result.confusion, sizeof model->confusion);
    memcpy(model->label_counts, result.label_counts, sizeof model->label_counts);
    version_give(evaluation, &own, sizeof own);
    return HASHATTN_OK;
}

hashattn_status hashattn_model_compare(hashattn_model *model, hashattn_model *against, const char *data,
                                       const char *split, uint64_t seed, hashattn_comparison *comparison)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct host *host = &model->context->host;
    FAIL_IF(against == NULL || split == NULL || comparison == NULL, host, HASHATTN_INVALID, "%s is NULL",
            against == NULL ? "against"
            : split == NULL ? "split"
                            : "comparison");
    const struct train_setup setup = model_setup(model);
    const struct compared run = {&model->config, model->net, model->values},
                          other = {&against->config, against->net, against->values};
    enum split which;
    struct comparison found;
    TRY(comm_agree(host, setup.comm, model_split(host, split, &which)));
    TRY(model_check_ranks(model, seed));
    TRY(model_check_ranks(against, seed));
    if (split_in(&against->config, data, which) == SPLIT_COUNT)
        which = split_in(&model->config, data, which);
    TRY(compare_runs(host, &setup, &run, &other, data, which, seed, &found));
    for (size_t i = 0; i < found.count; i++) {
        const struct metric_difference *of = &found.list[i];
        model->differences[i] = (hashattn_difference){.name = of->metric->name,
                                                      .value = of->value,
                                                      .other = of->other,
                                                      .difference = of->difference,
                                                      .standard_error = of->standard_error,
                                                      .z = of->z,
                                                      .p = of->p,
                                                      .more_is_better = of->metric->more_is_better,
                                                      .selects = of->metric->selects};
    }
    const hashattn_comparison own = {
        .examples = found.examples, .list = model->differences, .count = found.count};
    version_give(comparison, &own, sizeof own);
    return HASHATTN_OK;
}

/* ---- quality of buckets -------------------------------------------------------------------------------- */

/* Passes results from the floor below to the public callback. */
struct inspect_bridge {
    hashattn_membership_callback *callback;
    void *user;
};

static bool tell(void *user, const struct inspected_head *head)
{
    const struct inspect_bridge *bridge = user;
    for (size_t p = 0; p < NUM_INSPECTED; p++) {
        const struct inspected_membership *of = &head->inspection->memberships[p];
        hashattn_membership membership = {.struct_size = sizeof membership,
                                          .sequence = head->sequence,
                                          .layer = head->layer,
                                          .head = head->head,
                                          .mechanism = head->mechanism->name,
                                          .membership = inspected_names[p],
                                          .num_tokens = head->num_tokens,
                                          .num_buckets = head->num_groups,
                                          .utility = of->utility,
                                          .bound = of->bound,
                                          .pairs = of->pairs,
                                          .best_queries = of->best_queries,
                                          .best_keys = of->best_keys,
                                          .probe = head->probe == NULL ? NULL : head->probe->name,
                                          .num_keys = head->num_keys,
                                          .stack = head->stack};
        for (size_t i = 0; i < IN_GROUPS; i++) {
            membership.queries_in[i] = of->queries_in[i];
            membership.keys_in[i] = of->keys_in[i];
        }
        if (bridge->callback(bridge->user, &membership) != 0)
            return true;
    }
    return false;
}

hashattn_status hashattn_model_probe(hashattn_model *model, const hashattn_attention *probe, size_t steps)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    if (probe != NULL) {
        const struct probe wanted = {.mechanism = probe->mechanism};
        TRY(inspect_check(&model->context->host, model->net, &wanted));
    }
    model->probe = probe;
    model->probe_steps = steps;
    return HASHATTN_OK;
}

hashattn_status hashattn_model_inspect(hashattn_model *model, const char *data, const char *split,
                                       size_t examples, uint64_t seed, hashattn_membership_callback *callback,
                                       void *user)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct host *host = &model->context->host;
    FAIL_IF(split == NULL || callback == NULL, host, HASHATTN_INVALID, "%s is NULL",
            split == NULL ? "split" : "callback");
    struct dataset dataset = {0}, training = {0};
    struct probe probe = {.steps = model->probe_steps, .seed = seed};
    if (model->probe != NULL) {
        probe.mechanism = model->probe->mechanism;
        probe.options = model->probe->options;
    }
    const struct probe *used = model->probe != NULL ? &probe : NULL;
    TRY(inspect_check(host, model->net, used));
    TRY(load_split(model, data, split, &dataset));
    const struct train_setup setup = model_setup(model);
    struct inspect_bridge bridge = {callback, user};
    hashattn_status status = HASHATTN_OK;
    if (used != NULL && probe.steps > 0 && probe.mechanism->own_loss != NULL)
        status = load_split(model, data, "train", &training);
    if (status == HASHATTN_OK)
        status = inspect(host, &setup, model->net, model->values, &dataset, examples, seed, used, &training,
                         tell, &bridge);
    dataset_free(host, &training);
    dataset_free(host, &dataset);
    return status;
}
