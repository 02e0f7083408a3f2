/* config.json: everything that eval, predict and resuming need, readable by people; beside it the vocabulary,
   if the facts have one (run_facts.h). The vocabulary is written first, so an existing config.json is
   complete. Sections: "task" (name, options, facts with the labels), "model", "attention" (name, options; if
   heads are mixed the name is the plan, head_plan.h, and options are grouped by mechanism), "training",
   "data", and if they were given "from", with "pretrained", "freeze" and "extended_at". An option is written
   as a number, flag or word; reading uses the same rows as the command line, so every range is checked. With
   "from", the options of learning ids are not written, and read but not used. A missing option has its
   default, so older files stay readable.
   An unknown key, a missing section and a value out of range are BAD_FILE with the key.
   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "io/utf8.h"
#include "train/run_facts.h"
#include "train/run_folder.h"
#include "train/trainer.h"

#define CONFIG_FORMAT  "hashattn run"
#define CONFIG_VERSION 2 /* 1 had no list of objectives: labels, or the flag next_token */

void run_config_free(struct host *host, struct run_config *config)
{
    head_plan_free(host, &config->model.plan);
    memory_free(host, config->task_options);
    task_facts_free(host, &config->facts);
    memset(config, 0, sizeof *config);
}

/* The metric of --best; f1:LABEL also names the positive class. */
static hashattn_status take_best(struct host *host, struct run_config *config)
{
    struct task_facts *facts = &config->facts;
    struct task_objective *first = &facts->objectives[0];
    const char *best = config->training.best;
    bool of_label = strncmp(best, "f1:", 3) == 0;
    if (best[0] == '\0' || strcmp(best, "auto") == 0 || facts->num_objectives == 0)
        return HASHATTN_OK;
    for (size_t i = 0; of_label && i < facts->num_classes; i++)
        if (strcmp(best + 3, facts->labels[i]) == 0)
            first->positive = i + 1;
    char list[200];
    task_names_list(facts->labels, facts->num_classes, list, sizeof list);
    FAIL_IF(of_label && first->positive == 0, host, HASHATTN_INVALID,
            "`best` is %s, and the training file has no label '%s'; it has: %s", best, best + 3, list);
    FAIL_IF(strlen(best) >= sizeof first->selects && !of_label, host, HASHATTN_INVALID,
            "`best`: no metric is called '%s'", best);
    strcpy(first->selects, of_label ? "f1" : best);
    return HASHATTN_OK;
}

hashattn_status run_config_take_facts(struct host *host, struct run_config *config)
{
    TRY(take_best(host, config));
    const struct task_facts *facts = &config->facts;
    struct model_config *model = &config->model;
    model->vocab_size = (int64_t)facts->vocab_size;
    model->row_width = (int64_t)facts->row_width;
    model->decoder_rows = (int64_t)facts->decoder_rows;
    model->decoded_rows = (int64_t)facts->decoded_rows;
    model->num_segments = (int64_t)facts->num_segments;
    model->max_len = (int64_t)facts->max_len;
    model->pairs = facts->pairs;
    model->bytes = facts->bytes;
    model->num_objectives = facts->num_objectives;
    for (size_t i = 0; i < facts->num_objectives; i++) {
        const struct task_objective *entry = &facts->objectives[i];
        const struct objective *objective = objective_find(entry->name);
        FAIL_IF(objective == NULL, host, HASHATTN_INVALID, "task: unknown objective '%.31s'", entry->name);
        model->objectives[i] = (struct model_objective){.objective = objective,
                                                        .weight = entry->weight,
                                                        .num_outputs = (int64_t)entry->num_outputs,
                                                        .first_output = (int64_t)entry->first_output,
                                                        .positive = (int64_t)entry->positive,
                                                        .quantiles = entry->quantiles};
        snprintf(model->objectives[i].selects, sizeof model->objectives[i].selects, "%s", entry->selects);
    }
    return HASHATTN_OK;
}

/* ---- writing ---- */

static hashattn_status put_option(struct host *host, struct json *object, const struct option_row *row,
                                  const void *values)
{
    const void *field = (const char *)values + row->offset;
    switch (row->type) {
    case OPTION_INT:
        return json_put_int(host, object, row->name, *(const int64_t *)field);
    case OPTION_REAL:
        return json_put_real(host, object, row->name, *(const double *)field);
    case OPTION_CHOICE:
        return json_put_string(host, object, row->name, row->choices[*(const int *)field]);
    case OPTION_FLAG:
        return json_put_bool(host, object, row->name, *(const int *)field != 0);
    case OPTION_TEXT:
        return json_put_string(host, object, row->name, field);
    }
    return HASHATTN_OK;
}

/* learned: false leaves out how ids are learned. */
static hashattn_status put_options(struct host *host, struct json *parent, const char *key,
                                   const struct option_row *rows, const void *values, bool learned)
{
    struct json *object;
    TRY(json_new_object(host, &object));
    TRY(json_put(host, parent, key, object));
    for (const struct option_row *row = rows; row->name != NULL; row++)
        if (learned || !row->learning)
            TRY(put_option(host, object, row, values));
    return HASHATTN_OK;
}

void run_config_settle(const struct kernels *kernels, struct run_config *config)
{
    const struct head_plan *plan = &config->model.plan;
    for (size_t i = 0; i < plan->num_used; i++)
        if (plan->used[i].mechanism->hashing != NULL)
            plan->used[i].mechanism->hashing->settle(kernels, plan->used[i].options);
}

/* A model must compute as it did in training, so the file must have the settled values. */
static hashattn_status check_settled(struct host *host, const char *where, const struct planned *used)
{
    const struct hashing_facet *hashing = used->mechanism->hashing;
    const char *name = hashing == NULL ? NULL : hashing->unsettled(used->options);
    FAIL_IF(name != NULL, host, HASHATTN_BAD_FILE,
            "%s.%s is not settled, so its value in training is unknown", where, name);
    return HASHATTN_OK;
}

/* Files of version 1 have the projection next to the options of the one mechanism: the same word, or `auto`
   in the options. For mechanisms that do not hash, the word has no meaning. */
static hashattn_status get_projection(struct host *host, const struct json *root, const struct planned *used)
{
    const char *name;
    char text[40];
    const struct option_row *row = option_find(used->mechanism->options, "projection");
    if (json_find(root, "attention.projection") == NULL)
        return HASHATTN_OK;
    TRY(json_get_string(host, root, "attention.projection", &name));
    if (row == NULL)
        return HASHATTN_OK;
    option_text(row, used->options, text, sizeof text);
    FAIL_IF(strcmp(text, "auto") != 0 && strcmp(text, name) != 0, host, HASHATTN_BAD_FILE,
            "attention.projection is '%.60s' and attention.options.projection '%s'", name, text);
    hashattn_status status =
        option_set(host, used->mechanism->options, "attention", used->options, row->name, name);
    return status == HASHATTN_INVALID ? HASHATTN_BAD_FILE : status;
}

static hashattn_status put_attention(struct host *host, struct json *root, const struct head_plan *plan)
{
    struct json *attention, *options;
    TRY(json_new_object(host, &attention));
    TRY(json_put(host, root, "attention", attention));
    TRY(json_put_string(host, attention, "name", plan->text));
    if (plan->num_used == 1)
        return put_options(host, attention, "options", plan->used[0].mechanism->options,
                           plan->used[0].options, true);
    TRY(json_new_object(host, &options));
    TRY(json_put(host, attention, "options", options));
    for (size_t i = 0; i < plan->num_used; i++)
        TRY(put_options(host, options, plan->used[i].mechanism->name, plan->used[i].mechanism->options,
                        plan->used[i].options, true));
    return HASHATTN_OK;
}

/* Objectives that read the input itself have no attention, whatever the plan is. */
static hashattn_status put_plan(struct host *host, struct json *root, const struct model_config *model)
{
    struct head_plan none;
    if (!model_config_is_bare(model))
        return put_attention(host, root, &model->plan);
    TRY(head_plan_new(host, "none", &none));
    hashattn_status status = put_attention(host, root, &none);
    head_plan_free(host, &none);
    return status;
}

static hashattn_status put_path(struct host *host, struct json *root, const char *key, const char *path)
{
    FAIL_IF(utf8_first_error(path, strlen(path)) < strlen(path), host, HASHATTN_INVALID,
            "%.300s: this path is not UTF-8, so config.json cannot record it as `%s`; rename it", path, key);
    return json_put_string(host, root, key, path);
}

static hashattn_status put_config(struct host *host, struct json *root, const struct run_config *config)
{
    struct json *task;
    TRY(json_put_string(host, root, "format", CONFIG_FORMAT));
    TRY(json_put_int(host, root, "version", CONFIG_VERSION));
    TRY(json_new_object(host, &task));
    TRY(json_put(host, root, "task", task));
    TRY(json_put_string(host, task, "name", config->task->name));
    TRY(put_options(host, task, "options", config->task->options, config->task_options,
                    config->from[0] == '\0')); /* the ids of a stored model were not learned here */
    TRY(run_facts_put(host, task, &config->facts));
    TRY(put_options(host, root, "model", model_options, &config->model, true));
    TRY(put_plan(host, root, &config->model));
    TRY(put_options(host, root, "training", train_rows, &config->training, true));
    if (config->freeze[0] != '\0')
        TRY(json_put_string(host, root, "freeze", config->freeze));
    if (config->from[0] != '\0')
        TRY(put_path(host, root, "from", config->from));
    if (config->pretrained)
        TRY(json_put_bool(host, root, "pretrained", true));
    if (config->extended_at > 0)
        TRY(json_put_int(host, root, "extended_at", config->extended_at));
    return put_path(host, root, "data", config->data);
}

hashattn_status run_config_save(struct host *host, const char *run, const struct run_config *config)
{
    char path[FILE_PATH];
    struct json *root;
    TRY(run_facts_save_vocabulary(host, run, &config->facts));
    TRY(file_join(host, run, "config.json", path, sizeof path));
    TRY(json_new_object(host, &root));
    hashattn_status status = put_config(host, root, config);
    if (status == HASHATTN_OK)
        status = json_write_file(host, path, root);
    json_free(root);
    return status;
}

hashattn_status run_config_text(struct host *host, const struct run_config *config, char **text, size_t *size)
{
    struct json *root;
    TRY(json_new_object(host, &root));
    hashattn_status status = put_config(host, root, config);
    if (status == HASHATTN_OK)
        status = json_to_text(host, root, JSON_PAGE, text, size);
    json_free(root);
    return status;
}

/* ---- reading ---- */

/* Sets the options that the object at `where` names; other options keep their values. */
static hashattn_status get_options(struct host *host, const struct json *root, const char *where,
                                   const struct option_row *rows, void *values)
{
    const struct json *object;
    TRY(json_get_object(host, root, where, &object));
    for (struct json_member member = json_first(object); member.key != NULL; member = json_next(member)) {
        char number[JSON_MAX_NUMBER], path[100];
        const char *text;
        const struct option_row *row = option_find(rows, member.key);
        FAIL_IF(row == NULL, host, HASHATTN_BAD_FILE, "%s has the unknown key '%.60s'", where, member.key);
        bool word = row->type == OPTION_CHOICE || row->type == OPTION_TEXT;
        FAIL_IF((json_text(member.value) != NULL) != word, host, HASHATTN_BAD_FILE, "%s.%s is %sa word",
                where, row->name, word ? "not " : "");
        snprintf(path, sizeof path, "%s.%s", where, row->name);
        TRY(json_get_text(host, root, path, number, &text));
        if (option_set(host, rows, where, values, row->name, text) != HASHATTN_OK)
            return HASHATTN_BAD_FILE; /* the message has the key, the value and the range */
    }
    return HASHATTN_OK;
}

static hashattn_status get_task(struct host *host, const struct json *root, struct run_config *config)
{
    static const char *const members[] = {"name", "options", "facts", NULL};
    const struct json *object;
    const char *name;
    TRY(json_get_object(host, root, "task", &object));
    TRY(json_only_members(host, object, "task", members));
    TRY(json_get_string(host, root, "task.name", &name));
    config->task = task_find(name);
    FAIL_IF(config->task == NULL, host, HASHATTN_BAD_FILE, "task.name is '%.60s', which is not a task", name);
    TRY(memory_new_zeroed(host, config->task->options_size, 1, "task options", &config->task_options));
    options_preset(config->task->options, config->task_options);
    TRY(get_options(host, root, "task.options", config->task->options, config->task_options));
    return run_facts_get(host, root, &config->facts);
}

/* With mixed heads: the options of each mechanism under its name. */
static hashattn_status get_mixed(struct host *host, const struct json *root, const struct head_plan *plan)
{
    const struct json *options;
    const char *names[PLAN_MECHANISMS + 1] = {NULL};
    for (size_t i = 0; i < plan->num_used; i++)
        names[i] = plan->used[i].mechanism->name;
    TRY(json_get_object(host, root, "attention.options", &options));
    TRY(json_only_members(host, options, "attention.options", names));
    for (size_t i = 0; i < plan->num_used; i++) {
        const struct planned *used = &plan->used[i];
        char where[80];
        snprintf(where, sizeof where, "attention.options.%s", names[i]);
        if (json_find(options, names[i]) != NULL)
            TRY(get_options(host, root, where, used->mechanism->options, used->options));
        TRY(check_settled(host, where, used));
    }
    return HASHATTN_OK;
}

static hashattn_status get_attention(struct host *host, const struct json *root, struct head_plan *plan)
{
    static const char *const members[] = {"name", "projection", "options", NULL};
    const struct json *object;
    const char *name;
    TRY(json_get_object(host, root, "attention", &object));
    TRY(json_get_string(host, root, "attention.name", &name));
    hashattn_status status = head_plan_new(host, name, plan);
    if (status == HASHATTN_INVALID) {
        char prefix[100];
        snprintf(prefix, sizeof prefix, "attention.name is '%.60s'", name);
        host_prefix(host, prefix);
        status = HASHATTN_BAD_FILE;
    }
    TRY(status);
    if (plan->num_used > 1) {
        TRY(json_only_members(host, object, "attention", (const char *const[]){"name", "options", NULL}));
        return get_mixed(host, root, plan);
    }
    TRY(json_only_members(host, object, "attention", members));
    TRY(get_options(host, root, "attention.options", plan->used[0].mechanism->options,
                    plan->used[0].options));
    TRY(get_projection(host, root, &plan->used[0]));
    return check_settled(host, "attention.options", &plan->used[0]);
}

static hashattn_status get_model(struct host *host, const struct json *root, struct run_config *config)
{
    struct model_config *model = &config->model;
    bool old_next_token = false; /* from version 1, which was causal without a flag of its own */
    options_preset(model_options, model);
    if (json_find(root, "task.facts.next_token") != NULL)
        TRY(json_get_bool(host, root, "task.facts.next_token", &old_next_token));
    model->causal = old_next_token;
    TRY(get_options(host, root, "model", model_options, model));
    TRY(get_attention(host, root, &model->plan));
    hashattn_status status = run_config_take_facts(host, config);
    return status == HASHATTN_INVALID ? HASHATTN_BAD_FILE : status;
}

/* Every class needs a label. */
static hashattn_status check_labels(struct host *host, const struct run_config *config)
{
    size_t classes = 0;
    for (size_t i = config->model.num_objectives; i-- > 0;) {
        const struct model_objective *entry = &config->model.objectives[i];
        if (entry->objective->labelled)
            classes = (size_t)entry->num_outputs;
    }
    FAIL_IF(config->facts.num_classes != classes, host, HASHATTN_BAD_FILE,
            "task.facts.labels has %zu labels, the model has %zu classes", config->facts.num_classes,
            classes);
    return HASHATTN_OK;
}

/* Checks that no single range makes: dim is a multiple of heads, the mechanism accepts the length. */
static hashattn_status check_model(struct host *host, const struct run_config *config)
{
    struct model *made;
    hashattn_status status = model_new(host, &config->model, &made);
    if (status == HASHATTN_INVALID || status == HASHATTN_REFUSED)
        return HASHATTN_BAD_FILE;
    TRY(status);
    model_free(host, made);
    return check_labels(host, config);
}

/* Copies a string of the file to text[size]. */
static hashattn_status get_word(struct host *host, const struct json *root, const char *key, char *text,
                                size_t size)
{
    const char *found;
    TRY(json_get_string(host, root, key, &found));
    FAIL_IF(strlen(found) >= size, host, HASHATTN_BAD_FILE, "%s is %zu bytes long, at most %zu fit", key,
            strlen(found), size - 1);
    memcpy(text, found, strlen(found) + 1);
    return HASHATTN_OK;
}

static hashattn_status get_config(struct host *host, const struct json *root, struct run_config *config)
{
    static const char *const members[] = {"format",     "version",  "task",        "model",
                                          "attention",  "training", "freeze",      "from",
                                          "pretrained", "data",     "extended_at", NULL};
    const char *text;
    int64_t version;
    TRY(json_get_string(host, root, "format", &text));
    FAIL_IF(strcmp(text, CONFIG_FORMAT) != 0, host, HASHATTN_BAD_FILE, "format is '%.60s', '%s' is read",
            text, CONFIG_FORMAT);
    TRY(json_get_int(host, root, "version", 1, CONFIG_VERSION, &version));
    TRY(json_only_members(host, root, "the file", members));
    TRY(get_task(host, root, config));
    TRY(get_model(host, root, config));
    options_preset(train_rows, &config->training);
    TRY(get_options(host, root, "training", train_rows, &config->training));
    config->training.settled = true;
    if (config->training.shards == 0) /* the file is older than shards */
        config->training.shards = 1;
    FAIL_IF(config->training.warmup > config->training.steps, host, HASHATTN_BAD_FILE,
            "training.warmup is %lld, at most the %lld of training.steps are allowed",
            (long long)config->training.warmup, (long long)config->training.steps);
    if (json_find(root, "extended_at") != NULL)
        TRY(json_get_int(host, root, "extended_at", 1, config->training.steps, &config->extended_at));
    TRY(get_word(host, root, "data", config->data, sizeof config->data));
    if (json_find(root, "from") != NULL)
        TRY(get_word(host, root, "from", config->from, sizeof config->from));
    if (json_find(root, "pretrained") != NULL)
        TRY(json_get_bool(host, root, "pretrained", &config->pretrained));
    if (json_find(root, "freeze") != NULL)
        TRY(get_word(host, root, "freeze", config->freeze, sizeof config->freeze));
    return check_model(host, config);
}

static hashattn_status parse(struct host *host, const struct json *root, struct run_config *config)
{
    memset(config, 0, sizeof *config);
    hashattn_status status = get_config(host, root, config);
    if (status != HASHATTN_OK)
        run_config_free(host, config);
    return status;
}

hashattn_status run_config_parse(struct host *host, const char *text, size_t size, struct run_config *config)
{
    struct json *root;
    memset(config, 0, sizeof *config);
    TRY(json_parse(host, text, size, &root));
    hashattn_status status = parse(host, root, config);
    json_free(root);
    return status;
}

hashattn_status run_config_check(struct host *host, const struct run_config *config)
{
    struct run_config back;
    char *text, *again = NULL;
    size_t size, size_again = 0;
    TRY(run_config_text(host, config, &text, &size));
    hashattn_status status = run_config_parse(host, text, size, &back);
    if (status == HASHATTN_OK) {
        status = run_config_text(host, &back, &again, &size_again);
        run_config_free(host, &back);
    }
    bool same = status == HASHATTN_OK && size == size_again && memcmp(text, again, size) == 0;
    memory_free(host, again);
    memory_free(host, text);
    if (status == HASHATTN_BAD_FILE) {
        host_prefix(host, "the config.json of this run could not be read again");
        return HASHATTN_INVALID;
    }
    TRY(status);
    FAIL_IF(!same, host, HASHATTN_INVALID, "the config.json of this run would be read with other values");
    return HASHATTN_OK;
}

hashattn_status run_config_load(struct host *host, const char *run, struct run_config *config)
{
    char path[FILE_PATH];
    struct json *root;
    memset(config, 0, sizeof *config);
    TRY(run_folder_check_old(host, run));
    TRY(file_join(host, run, "config.json", path, sizeof path));
    TRY(json_read_file(host, path, &root));
    hashattn_status status = parse(host, root, config);
    json_free(root);
    if (status != HASHATTN_OK) {
        host_prefix(host, path);
        return status;
    }
    status = run_facts_load_vocabulary(host, run, &config->facts);
    if (status != HASHATTN_OK)
        run_config_free(host, config);
    return status;
}

hashattn_status run_config_check_data(struct host *host, const struct run_config *config)
{
    const char *data = config->data;
    FAIL_IF(!file_is_standard(data) && !file_exists(data), host, HASHATTN_BAD_FILE,
            "%.300s: the data of the run is not there; move it back, or give its new place with `data`",
            data);
    return file_check_recorded(host, data);
}

hashattn_status run_config_set_data(struct host *host, struct run_config *config, const char *data)
{
    char absolute[PATH_MAX];
    FAIL_IF(realpath(data, absolute) == NULL, host, HASHATTN_BAD_FILE, "cannot open %.300s: %s", data,
            strerror(errno));
    FAIL_IF(strlen(absolute) >= sizeof config->data, host, HASHATTN_INVALID,
            "the path of the data is %zu bytes long, at most %zu fit", strlen(absolute),
            sizeof config->data - 1);
    TRY(file_check_recorded(host, absolute));
    strcpy(config->data, absolute);
    return HASHATTN_OK;
}

hashattn_status run_config_data(struct host *host, const struct run_config *config, const char **data)
{
    if (*data == NULL) {
        *data = config->data;
        return run_config_check_data(host, config);
    }
    FAIL_IF(!file_is_standard(*data) && !file_exists(*data), host, HASHATTN_BAD_FILE,
            "cannot open %.300s: %s", *data, strerror(errno));
    return HASHATTN_OK;
}
