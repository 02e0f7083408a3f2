/* config.json: everything that eval, predict and resuming need, readable by people; with vocab.txt beside it
   if the facts have words (words.h). vocab.txt is written first, so an existing config.json is complete.
   Sections: "task" (name, options, facts with the labels), "model", "attention" (name, options; if heads are
   mixed the name is the plan, head_plan.h, and options are grouped by mechanism), "training", "data". An
   option is written as a number, flag or word; reading uses the same rows as the command line, so every range
   is checked. A missing option has its default, so older files stay readable. An unknown key, a missing
   section and a value out of range are BAD_FILE with the key's name. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "tasks/words.h"
#include "train/trainer.h"

#define CONFIG_FORMAT  "hashattn run"
#define CONFIG_VERSION 2 /* 1 had no list of objectives: labels, or the flag next_token */

/* More than any task has, and few enough to be allocated safely. */
enum { MOST_LABELS = 1 << 16, MOST_TOKENS = 1 << 24 };

void run_config_free(struct host *host, struct run_config *config)
{
    head_plan_free(host, &config->model.plan);
    memory_free(host, config->task_options);
    task_facts_free(host, &config->facts);
    memset(config, 0, sizeof *config);
}

hashattn_status run_config_take_facts(struct host *host, struct run_config *config)
{
    const struct task_facts *facts = &config->facts;
    struct model_config *model = &config->model;
    model->vocab_size = (int64_t)facts->vocab_size;
    model->row_width = (int64_t)facts->row_width;
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
                                                        .first_output = (int64_t)entry->first_output};
    }
    return HASHATTN_OK;
}

/* ---- writing ---- */

static hashattn_status put_options(struct host *host, struct json *parent, const char *key,
                                   const struct option_row *rows, const void *values)
{
    struct json *object;
    TRY(json_new_object(host, &object));
    TRY(json_put(host, parent, key, object));
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        const void *field = (const char *)values + row->offset;
        switch (row->type) {
        case OPTION_INT:
            TRY(json_put_int(host, object, row->name, *(const int64_t *)field));
            break;
        case OPTION_REAL:
            TRY(json_put_real(host, object, row->name, *(const double *)field));
            break;
        case OPTION_CHOICE:
            TRY(json_put_string(host, object, row->name, row->choices[*(const int *)field]));
            break;
        case OPTION_FLAG:
            TRY(json_put_bool(host, object, row->name, *(const int *)field != 0));
            break;
        }
    }
    return HASHATTN_OK;
}

void run_config_settle(const struct kernels *kernels, struct run_config *config)
{
    const struct head_plan *plan = &config->model.plan;
    for (size_t i = 0; i < plan->num_used; i++)
        if (plan->used[i].mechanism->settle != NULL)
            plan->used[i].mechanism->settle(kernels, plan->used[i].options);
}

/* A model must compute as it did in training, so the file must have the settled values. */
static hashattn_status check_settled(struct host *host, const char *where, const struct planned *used)
{
    const struct mechanism *mechanism = used->mechanism;
    const char *name = mechanism->unsettled == NULL ? NULL : mechanism->unsettled(used->options);
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

static hashattn_status put_objectives(struct host *host, struct json *facts_object,
                                      const struct task_facts *facts)
{
    struct json *list, *object;
    TRY(json_new_array(host, &list));
    TRY(json_put(host, facts_object, "objectives", list));
    for (size_t i = 0; i < facts->num_objectives; i++) {
        const struct task_objective *entry = &facts->objectives[i];
        TRY(json_new_object(host, &object));
        TRY(json_put(host, list, NULL, object));
        TRY(json_put_string(host, object, "name", entry->name));
        TRY(json_put_real(host, object, "weight", entry->weight));
        TRY(json_put_int(host, object, "outputs", (int64_t)entry->num_outputs));
        TRY(json_put_int(host, object, "first_output", (int64_t)entry->first_output));
    }
    return HASHATTN_OK;
}

static hashattn_status put_facts(struct host *host, struct json *task, const struct task_facts *facts)
{
    struct json *object, *labels;
    TRY(json_new_object(host, &object));
    TRY(json_put(host, task, "facts", object));
    TRY(json_put_int(host, object, "vocab_size", (int64_t)facts->vocab_size));
    TRY(json_put_int(host, object, "max_len", (int64_t)facts->max_len));
    TRY(json_put_bool(host, object, "pairs", facts->pairs));
    if (facts->row_width > 0)
        TRY(json_put_int(host, object, "row_width", (int64_t)facts->row_width));
    if (facts->num_segments > 0)
        TRY(json_put_int(host, object, "segments", (int64_t)facts->num_segments));
    if (facts->bytes)
        TRY(json_put_bool(host, object, "bytes", true));
    TRY(put_objectives(host, object, facts));
    if (facts->num_words > 0)
        TRY(json_put_int(host, object, "words", (int64_t)facts->num_words));
    TRY(json_new_array(host, &labels));
    TRY(json_put(host, object, "labels", labels));
    for (size_t i = 0; i < facts->num_classes; i++)
        TRY(json_put_string(host, labels, NULL, facts->labels[i]));
    return HASHATTN_OK;
}

static hashattn_status put_attention(struct host *host, struct json *root, const struct head_plan *plan)
{
    struct json *attention, *options;
    TRY(json_new_object(host, &attention));
    TRY(json_put(host, root, "attention", attention));
    TRY(json_put_string(host, attention, "name", plan->text));
    if (plan->num_used == 1)
        return put_options(host, attention, "options", plan->used[0].mechanism->options,
                           plan->used[0].options);
    TRY(json_new_object(host, &options));
    TRY(json_put(host, attention, "options", options));
    for (size_t i = 0; i < plan->num_used; i++)
        TRY(put_options(host, options, plan->used[i].mechanism->name, plan->used[i].mechanism->options,
                        plan->used[i].options));
    return HASHATTN_OK;
}

static hashattn_status put_config(struct host *host, struct json *root, const struct run_config *config)
{
    struct json *task;
    TRY(json_put_string(host, root, "format", CONFIG_FORMAT));
    TRY(json_put_int(host, root, "version", CONFIG_VERSION));
    TRY(json_new_object(host, &task));
    TRY(json_put(host, root, "task", task));
    TRY(json_put_string(host, task, "name", config->task->name));
    TRY(put_options(host, task, "options", config->task->options, config->task_options));
    TRY(put_facts(host, task, &config->facts));
    TRY(put_options(host, root, "model", model_options, &config->model));
    TRY(put_attention(host, root, &config->model.plan));
    TRY(put_options(host, root, "training", train_rows, &config->training));
    return json_put_string(host, root, "data", config->data);
}

hashattn_status run_config_save(struct host *host, const char *run, const struct run_config *config)
{
    char path[FILE_PATH];
    struct json *root;
    if (config->facts.words != NULL) {
        TRY(file_join(host, run, "vocab.txt", path, sizeof path));
        TRY(words_save(host, path, config->facts.words));
    }
    TRY(file_join(host, run, "config.json", path, sizeof path));
    TRY(json_new_object(host, &root));
    hashattn_status status = put_config(host, root, config);
    if (status == HASHATTN_OK)
        status = json_write_file(host, path, root);
    json_free(root);
    return status;
}

/* ---- reading ---- */

/* Refuses a member that is not in the list; `where` is the key path of the object. */
static hashattn_status only_members(struct host *host, const struct json *object, const char *where,
                                    const char *const *allowed)
{
    for (struct json_member member = json_first(object); member.key != NULL; member = json_next(member)) {
        size_t i = 0;
        while (allowed[i] != NULL && strcmp(allowed[i], member.key) != 0)
            i++;
        FAIL_IF(allowed[i] == NULL, host, HASHATTN_BAD_FILE, "%s has the unknown key '%.60s'", where,
                member.key);
    }
    return HASHATTN_OK;
}

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
        FAIL_IF((json_text(member.value) != NULL) != (row->type == OPTION_CHOICE), host, HASHATTN_BAD_FILE,
                "%s.%s is %sa word", where, row->name, row->type == OPTION_CHOICE ? "not " : "");
        snprintf(path, sizeof path, "%s.%s", where, row->name);
        TRY(json_get_text(host, root, path, number, &text));
        if (option_set(host, rows, where, values, row->name, text) != HASHATTN_OK)
            return HASHATTN_BAD_FILE; /* the message has the key, the value and the range */
    }
    return HASHATTN_OK;
}

static hashattn_status get_objective(struct host *host, const struct json *root, size_t index,
                                     struct task_facts *facts)
{
    static const char *const members[] = {"name", "weight", "outputs", "first_output", NULL};
    const struct json *object;
    const char *name;
    char where[60];
    double weight;
    int64_t outputs, first;
    snprintf(where, sizeof where, "task.facts.objectives.%zu", index);
    TRY(json_get_object(host, root, where, &object));
    TRY(only_members(host, object, where, members));
    TRY(json_get_string(host, object, "name", &name));
    TRY(json_get_real(host, object, "weight", &weight));
    TRY(json_get_int(host, object, "outputs", 0, MODEL_MOST_VOCAB, &outputs));
    TRY(json_get_int(host, object, "first_output", 0, MODEL_MOST_VOCAB, &first));
    task_facts_add(facts, name, (size_t)outputs, (size_t)first);
    facts->objectives[index].weight = weight;
    return HASHATTN_OK;
}

/* Files of version 1 have no list: a run predicted next tokens, with ids from 1, or classes. */
static hashattn_status get_objectives(struct host *host, const struct json *root, struct task_facts *facts)
{
    const struct json *list, *object;
    bool next_token = false;
    TRY(json_get_object(host, root, "task.facts", &object));
    if (json_find(object, "objectives") != NULL) {
        TRY(json_get_array(host, root, "task.facts.objectives", &list));
        FAIL_IF(json_count(list) > TASK_OBJECTIVES, host, HASHATTN_BAD_FILE,
                "task.facts.objectives has %zu entries, at most %d are allowed", json_count(list),
                TASK_OBJECTIVES);
        for (size_t i = 0; i < json_count(list); i++)
            TRY(get_objective(host, root, i, facts));
        return HASHATTN_OK;
    }
    if (json_find(object, "next_token") != NULL)
        TRY(json_get_bool(host, root, "task.facts.next_token", &next_token));
    if (next_token) {
        facts->bytes = facts->num_words == 0;
        task_facts_add(facts, "next_token", facts->vocab_size - 1, 1);
    } else {
        task_facts_add(facts, "classify", facts->num_classes, 0);
    }
    return HASHATTN_OK;
}

static hashattn_status get_labels(struct host *host, const struct json *root, struct task_facts *facts)
{
    const struct json *labels;
    void *block;
    TRY(json_get_array(host, root, "task.facts.labels", &labels));
    size_t count = json_count(labels);
    FAIL_IF(count > MOST_LABELS, host, HASHATTN_BAD_FILE,
            "task.facts.labels has %zu labels, at most %d are allowed", count, MOST_LABELS);
    if (count == 0)
        return HASHATTN_OK;
    TRY(memory_new_zeroed(host, count, sizeof *facts->labels, "labels", &block));
    facts->labels = block;
    facts->num_classes = count;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        const char *label;
        snprintf(path, sizeof path, "task.facts.labels.%zu", i);
        TRY(json_get_string(host, root, path, &label));
        size_t size = strlen(label) + 1;
        TRY(memory_new(host, size, 1, "a label", &block));
        facts->labels[i] = block;
        memcpy(facts->labels[i], label, size);
    }
    return HASHATTN_OK;
}

static hashattn_status get_facts(struct host *host, const struct json *root, struct task_facts *facts)
{
    static const char *const members[] = {"vocab_size", "row_width",  "segments", "max_len", "pairs", "bytes",
                                          "objectives", "next_token", "words",    "labels",  NULL};
    const struct json *object;
    int64_t number;
    TRY(json_get_object(host, root, "task.facts", &object));
    TRY(only_members(host, object, "task.facts", members));
    TRY(json_get_int(host, root, "task.facts.vocab_size", 0, MODEL_MOST_VOCAB, &number));
    facts->vocab_size = (size_t)number;
    if (json_find(object, "row_width") != NULL) {
        TRY(json_get_int(host, root, "task.facts.row_width", 1, 65536, &number));
        facts->row_width = (size_t)number;
    }
    if (json_find(object, "segments") != NULL) {
        TRY(json_get_int(host, root, "task.facts.segments", 1, 256, &number));
        facts->num_segments = (size_t)number;
    }
    if (json_find(object, "bytes") != NULL)
        TRY(json_get_bool(host, root, "task.facts.bytes", &facts->bytes));
    TRY(json_get_int(host, root, "task.facts.max_len", 1, MOST_TOKENS, &number));
    facts->max_len = (size_t)number;
    if (json_find(object, "pairs") != NULL)
        TRY(json_get_bool(host, root, "task.facts.pairs", &facts->pairs));
    if (json_find(object, "words") != NULL) {
        TRY(json_get_int(host, root, "task.facts.words", 2, WORDS_MOST, &number));
        facts->num_words = (size_t)number;
        FAIL_IF(facts->num_words + 1 != facts->vocab_size, host, HASHATTN_BAD_FILE,
                "task.facts.words is %zu with a vocab_size of %zu, which counts them and the unused id 0",
                facts->num_words, facts->vocab_size);
    }
    TRY(get_labels(host, root, facts));
    return get_objectives(host, root, facts);
}

static hashattn_status get_task(struct host *host, const struct json *root, struct run_config *config)
{
    static const char *const members[] = {"name", "options", "facts", NULL};
    const struct json *object;
    const char *name;
    TRY(json_get_object(host, root, "task", &object));
    TRY(only_members(host, object, "task", members));
    TRY(json_get_string(host, root, "task.name", &name));
    config->task = task_find(name);
    FAIL_IF(config->task == NULL, host, HASHATTN_BAD_FILE, "task.name is '%.60s', which is not a task", name);
    TRY(memory_new_zeroed(host, config->task->options_size, 1, "task options", &config->task_options));
    options_preset(config->task->options, config->task_options);
    TRY(get_options(host, root, "task.options", config->task->options, config->task_options));
    return get_facts(host, root, &config->facts);
}

/* With mixed heads: the options of each mechanism under its name. */
static hashattn_status get_mixed(struct host *host, const struct json *root, const struct head_plan *plan)
{
    const struct json *options;
    const char *names[PLAN_MECHANISMS + 1] = {NULL};
    for (size_t i = 0; i < plan->num_used; i++)
        names[i] = plan->used[i].mechanism->name;
    TRY(json_get_object(host, root, "attention.options", &options));
    TRY(only_members(host, options, "attention.options", names));
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
        TRY(only_members(host, object, "attention", (const char *const[]){"name", "options", NULL}));
        return get_mixed(host, root, plan);
    }
    TRY(only_members(host, object, "attention", members));
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
        if (entry->objective->place == TARGET_EXAMPLE && entry->objective->type == TARGET_ID)
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

static hashattn_status get_config(struct host *host, const struct json *root, struct run_config *config)
{
    static const char *const members[] = {"format",    "version",  "task", "model",
                                          "attention", "training", "data", NULL};
    const char *text;
    int64_t version;
    TRY(json_get_string(host, root, "format", &text));
    FAIL_IF(strcmp(text, CONFIG_FORMAT) != 0, host, HASHATTN_BAD_FILE, "format is '%.60s', '%s' is read",
            text, CONFIG_FORMAT);
    TRY(json_get_int(host, root, "version", 1, CONFIG_VERSION, &version));
    TRY(only_members(host, root, "the file", members));
    TRY(get_task(host, root, config));
    TRY(get_model(host, root, config));
    options_preset(train_rows, &config->training);
    TRY(get_options(host, root, "training", train_rows, &config->training));
    FAIL_IF(config->training.warmup > config->training.steps, host, HASHATTN_BAD_FILE,
            "training.warmup is %lld, at most the %lld of training.steps are allowed",
            (long long)config->training.warmup, (long long)config->training.steps);
    TRY(json_get_string(host, root, "data", &text));
    FAIL_IF(strlen(text) >= sizeof config->data, host, HASHATTN_BAD_FILE,
            "data is %zu bytes long, at most %zu fit", strlen(text), sizeof config->data - 1);
    memcpy(config->data, text, strlen(text) + 1);
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

/* Loads the words that the facts count; the message has the path. */
static hashattn_status load_words(struct host *host, const char *run, struct task_facts *facts)
{
    char path[FILE_PATH];
    if (facts->num_words == 0)
        return HASHATTN_OK;
    TRY(file_join(host, run, "vocab.txt", path, sizeof path));
    return words_load(host, path, facts->num_words, &facts->words);
}

hashattn_status run_config_load(struct host *host, const char *run, struct run_config *config)
{
    char path[FILE_PATH];
    struct json *root;
    memset(config, 0, sizeof *config);
    TRY(file_join(host, run, "config.json", path, sizeof path));
    TRY(json_read_file(host, path, &root));
    hashattn_status status = parse(host, root, config);
    json_free(root);
    if (status != HASHATTN_OK) {
        host_prefix(host, path);
        return status;
    }
    status = load_words(host, run, &config->facts);
    if (status != HASHATTN_OK)
        run_config_free(host, config);
    return status;
}
