/* config.json: all that eval, predict and resuming must know, for people to read; and vocab.txt beside it
   where the facts have words (words.h). It is written first: a config.json that is there has all it needs.
   Sections: "task" (name,
   options, facts with the labels), "model", "attention" (name, options; where heads are mixed the name is the
   plan, head_plan.h, and options are those of each mechanism by its name), "training", "data". An option is
   written as a number, flag or word; reading goes through the same rows as the command line, so every range
   is checked. An option that is not there has its default, which is how older files stay readable; a key that
   nobody knows, a section that is missing and a value out of range are BAD_FILE with the key's name.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "tasks/words.h"
#include "train/trainer.h"

#define CONFIG_FORMAT  "hashattn run"
#define CONFIG_VERSION 1

/* More than any task has, and few enough to be allocated without a thought. */
enum { MOST_LABELS = 1 << 16, MOST_TOKENS = 1 << 24, MOST_VOCAB = 1 << 16 };

void run_config_free(struct host *host, struct run_config *config)
{
    head_plan_free(host, &config->model.plan);
    memory_free(host, config->task_options);
    task_facts_free(host, &config->facts);
    memset(config, 0, sizeof *config);
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

/* The field of the option `projection`, an enum hash_projection; NULL: this mechanism does not hash. */
static int *projection_field(const struct planned *used)
{
    const struct option_row *row = option_find(used->mechanism->options, "projection");
    return row == NULL ? NULL : (int *)(void *)((char *)used->options + row->offset);
}

/* What stands in the file: every run of one mechanism has the word, as it always had. */
static const char *projection_of(const struct planned *used)
{
    const int *field = projection_field(used);
    assert(field == NULL || *field != HASH_AUTO);
    return hash_projection_names[field == NULL ? HASH_F32 : *field];
}

void run_config_settle(const struct kernels *kernels, struct run_config *config)
{
    const struct head_plan *plan = &config->model.plan;
    for (size_t i = 0; i < plan->num_used; i++)
        if (plan->used[i].mechanism->settle != NULL)
            plan->used[i].mechanism->settle(kernels, plan->used[i].options);
}

/* A model hashes as it was trained. The option beside the recorded word says the same, or nothing (auto). */
static hashattn_status get_projection(struct host *host, const struct json *root, const struct planned *used)
{
    const char *name;
    int *field = projection_field(used), found = HASH_F32;
    TRY(json_get_string(host, root, "attention.projection", &name));
    while (hash_projection_names[found] != NULL && strcmp(hash_projection_names[found], name) != 0)
        found++;
    FAIL_IF(
        hash_projection_names[found] == NULL, host, HASHATTN_BAD_FILE,
        "attention.projection is '%.60s': hash codes were made so in training, and that is not known here",
        name);
    FAIL_IF(field != NULL && *field != HASH_AUTO && *field != found, host, HASHATTN_BAD_FILE,
            "attention.projection is '%s' and attention.options.projection '%s'", name,
            hash_projection_names[*field]);
    if (field != NULL)
        *field = found;
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
    if (facts->next_token)
        TRY(json_put_bool(host, object, "next_token", true));
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
    if (plan->num_used == 1) {
        TRY(json_put_string(host, attention, "projection", projection_of(&plan->used[0])));
        return put_options(host, attention, "options", plan->used[0].mechanism->options,
                           plan->used[0].options);
    }
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
    TRY(put_options(host, root, "model", encoder_options, &config->model));
    TRY(put_attention(host, root, &config->model.plan));
    TRY(put_options(host, root, "training", train_rows, &config->training));
    return json_put_string(host, root, "data", config->data);
}

hashattn_status run_config_save(struct host *host, const char *run, const struct run_config *config)
{
    char path[4096];
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

/* Refuses a member that is not in the list; `where` is the object's own key path. */
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

/* Sets the options that the object at `where` names; the others keep what they have. */
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

static hashattn_status get_facts(struct host *host, const struct json *root, struct task_facts *facts)
{
    static const char *const members[] = {"vocab_size", "max_len", "pairs", "next_token",
                                          "words",      "labels",  NULL};
    const struct json *object, *labels;
    int64_t number;
    void *block;
    TRY(json_get_object(host, root, "task.facts", &object));
    TRY(only_members(host, object, "task.facts", members));
    TRY(json_get_int(host, root, "task.facts.vocab_size", 1, MOST_VOCAB, &number));
    facts->vocab_size = (size_t)number;
    TRY(json_get_int(host, root, "task.facts.max_len", 1, MOST_TOKENS, &number));
    facts->max_len = (size_t)number;
    if (json_find(object, "pairs") != NULL)
        TRY(json_get_bool(host, root, "task.facts.pairs", &facts->pairs));
    if (json_find(object, "next_token") != NULL)
        TRY(json_get_bool(host, root, "task.facts.next_token", &facts->next_token));
    if (json_find(object, "words") != NULL) {
        TRY(json_get_int(host, root, "task.facts.words", 2, WORDS_MOST, &number));
        facts->num_words = (size_t)number;
        FAIL_IF(facts->num_words + 1 != facts->vocab_size, host, HASHATTN_BAD_FILE,
                "task.facts.words is %zu with a vocab_size of %zu, which counts padding and them",
                facts->num_words, facts->vocab_size);
    }
    TRY(json_get_array(host, root, "task.facts.labels", &labels));
    size_t count = json_count(labels);
    if (facts->next_token && count == 0)
        return HASHATTN_OK;
    FAIL_IF(count < 1 || count > MOST_LABELS || facts->next_token, host, HASHATTN_BAD_FILE,
            "task.facts.labels has %zu labels, allowed are 1 to %d, and 0 for next tokens", count,
            MOST_LABELS);
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

static hashattn_status get_task(struct host *host, const struct json *root, struct run_config *config)
{
    static const char *const members[] = {"name", "options", "facts", NULL};
    const struct json *object;
    const char *name;
    TRY(json_get_object(host, root, "task", &object));
    TRY(only_members(host, object, "task", members));
    TRY(json_get_string(host, root, "task.name", &name));
    config->task = task_find(name);
    FAIL_IF(config->task == NULL, host, HASHATTN_BAD_FILE, "task.name is '%.60s', which is no task", name);
    TRY(memory_new_zeroed(host, config->task->options_size, 1, "task options", &config->task_options));
    options_preset(config->task->options, config->task_options);
    TRY(get_options(host, root, "task.options", config->task->options, config->task_options));
    return get_facts(host, root, &config->facts);
}

/* Where heads are mixed: the options of each mechanism under its name. */
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
        const int *projection = projection_field(used);
        FAIL_IF(projection != NULL && *projection == HASH_AUTO, host, HASHATTN_BAD_FILE,
                "%s.projection is 'auto', and how hash codes were made in training is not known", where);
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
    return get_projection(host, root, &plan->used[0]);
}

static hashattn_status get_model(struct host *host, const struct json *root, struct run_config *config)
{
    struct encoder_config *model = &config->model;
    options_preset(encoder_options, model);
    TRY(get_options(host, root, "model", encoder_options, model));
    TRY(get_attention(host, root, &model->plan));
    model->vocab_size = (int64_t)config->facts.vocab_size;
    model->num_classes = (int64_t)config->facts.num_classes;
    model->max_len = (int64_t)config->facts.max_len;
    model->pairs = config->facts.pairs;
    model->next_token = config->facts.next_token;
    return HASHATTN_OK;
}

/* What no single range says: dim a multiple of heads, a length that the mechanism takes. */
static hashattn_status check_model(struct host *host, const struct encoder_config *model)
{
    struct encoder *encoder;
    hashattn_status status = encoder_new(host, model, &encoder);
    if (status == HASHATTN_OK)
        encoder_free(host, encoder);
    return status == HASHATTN_INVALID || status == HASHATTN_REFUSED ? HASHATTN_BAD_FILE : status;
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
    TRY(json_get_int(host, root, "version", CONFIG_VERSION, CONFIG_VERSION, &version));
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
    return check_model(host, &config->model);
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

/* The words that the facts count; the path is in the message. */
static hashattn_status load_words(struct host *host, const char *run, struct task_facts *facts)
{
    char path[4096];
    if (facts->num_words == 0)
        return HASHATTN_OK;
    TRY(file_join(host, run, "vocab.txt", path, sizeof path));
    return words_load(host, path, facts->num_words, &facts->words);
}

hashattn_status run_config_load(struct host *host, const char *run, struct run_config *config)
{
    char path[4096];
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
