/* Everything that determines a run, by name: a task, a mechanism, and the options in the rows of four owners.
   Presets come from the tables of the tasks.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/setup.h"
#include "api/floating.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/introspect.h"
#include "api/versions/versions.h"
#include "base/memory.h"

/* ---- tasks --------------------------------------------------------------------------------------------- */

size_t hashattn_task_count(void)
{
    size_t count = 0;
    while (task_table[count] != NULL)
        count++;
    return count;
}

int hashattn_task_get(size_t index, hashattn_task_info *info)
{
    if (index >= hashattn_task_count())
        return 0;
    const struct task *task = task_table[index];
    hashattn_task_info own = {.name = task->name,
                              .summary = task->summary,
                              .generates = task->generate != NULL,
                              .predicts = task->stream_file != NULL || task->load_dated != NULL,
                              .has_lra = task_preset_find(task, "lra") != NULL,
                              .attention = task->preset.attention == NULL ? "" : task->preset.attention,
                              .prepares = task->prepare != NULL,
                              .forecasts = task->load_dated != NULL};
    version_give(info, &own, sizeof own);
    return 1;
}

const char *hashattn_task_preset(size_t task, size_t index)
{
    const struct task_preset *row = task < hashattn_task_count() ? task_table[task]->presets : NULL;
    for (; row != NULL && row->name != NULL; row++)
        if (index-- == 0)
            return row->name;
    return NULL;
}

/* Applies a task's preset to the model and training options. */
static void take_preset(const struct task_preset *preset, struct model_config *model,
                        struct train_options *training)
{
    train_options_preset(preset, training);
    options_preset(model_options, model);
    model->layers = (int64_t)preset->layers;
    model->dim = (int64_t)preset->dim;
    model->heads = (int64_t)preset->heads;
    model->ffn = (int64_t)preset->ffn;
    model->causal = preset->causal;
    model->pooling = 0;
    while (strcmp(pooling_names[model->pooling], preset->pooling) != 0)
        model->pooling++;
    options_take(model_options, model, preset->model);
}

/* ---- options of all owners ----------------------------------------------------------------------------- */

/* Option rows and the struct that they fill. */
struct owner {
    const char *name, *of; /* "task" in lists, its own name in messages */
    const struct option_row *rows;
    void *values; /* NULL: use the defaults */
};
enum { MOST_OWNERS = PLAN_MECHANISMS + 4 };

/* Lists the task, every mechanism, the model, training and the preparation of data; returns their number. */
static size_t owners_of(struct run_config *config, void *data_options, struct owner owners[MOST_OWNERS])
{
    const struct head_plan *plan = &config->model.plan;
    size_t count = 0;
    owners[count++] = (struct owner){"task", config->task->name, config->task->options, config->task_options};
    for (size_t i = 0; i < plan->num_used; i++)
        owners[count++] = (struct owner){"attention", plan->used[i].mechanism->name,
                                         plan->used[i].mechanism->options, plan->used[i].options};
    owners[count++] = (struct owner){"model", "model", model_options, &config->model};
    owners[count++] = (struct owner){"training", "training", train_rows, &config->training};
    if (data_options != NULL)
        owners[count++] =
            (struct owner){"data", config->task->name, config->task->prepare_options, data_options};
    return count;
}

/* Fills *info with the index'th row of all owners in order; false past the last. */
static bool nth_option(const struct owner *owners, size_t num_owners, size_t index, hashattn_option *info)
{
    for (size_t o = 0; o < num_owners; o++)
        for (const struct option_row *row = owners[o].rows; row->name != NULL; row++)
            if (index-- == 0) {
                option_give(info, row, owners[o].name, owners[o].values);
                return true;
            }
    return false;
}

/* True if a list of words between spaces has this one. */
static bool has_word(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += size)
        if ((at == list || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return true;
    return false;
}

int hashattn_task_option(size_t task, size_t option, hashattn_option *info)
{
    FLOATING_DEFAULT;
    if (task >= hashattn_task_count())
        return 0;
    const struct task *of = task_table[task];
    struct model_config model;
    struct train_options training;
    memset(&model, 0, sizeof model);
    memset(&training, 0, sizeof training);
    take_preset(&of->preset, &model, &training);
    const struct owner owners[] = {{"task", of->name, of->options, NULL},
                                   {"model", "model", model_options, &model},
                                   {"training", "training", train_rows, &training},
                                   {"data", of->name, of->prepare_options, NULL}};
    hashattn_option own = {.struct_size = sizeof own};
    if (!nth_option(owners, of->prepare_options == NULL ? 3 : 4, option, &own))
        return 0;
    own.unread = strcmp(own.owner, "task") != 0 && has_word(of->unread, own.name);
    version_give(info, &own, sizeof own);
    return 1;
}

int hashattn_setup_option(const hashattn_setup *setup, size_t index, hashattn_option *info)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return 0;
    struct run_config config = setup->config; /* looked at only */
    struct owner owners[MOST_OWNERS];
    size_t count = owners_of(&config, setup->data_options, owners);
    return nth_option(owners, count, index, info);
}

/* Finds "lha.num_buckets" in lha, and a name without a mechanism in the first owner that has it. */
static bool option_named(const hashattn_setup *setup, const char *name, hashattn_option *option)
{
    struct run_config config = setup->config; /* looked at only */
    struct owner owners[MOST_OWNERS];
    size_t count = owners_of(&config, setup->data_options, owners);
    for (size_t o = 0; o < count; o++) {
        size_t size = strlen(owners[o].of);
        bool scoped = strcmp(owners[o].name, "attention") == 0 && strncmp(name, owners[o].of, size) == 0 &&
                      name[size] == '.';
        const struct option_row *row = option_find(owners[o].rows, scoped ? name + size + 1 : name);
        if (row == NULL)
            continue;
        option_give(option, row, owners[o].name, owners[o].values);
        return true;
    }
    return false;
}

hashattn_status hashattn_setup_get(const hashattn_setup *setup, const char *name, char *text, size_t size)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    FAIL_IF(name == NULL || text == NULL, host, HASHATTN_INVALID, "%s is NULL",
            name == NULL ? "the name of the option" : "the buffer for its text");
    hashattn_option option = {.struct_size = sizeof option};
    FAIL_IF(!option_named(setup, name, &option), host, HASHATTN_INVALID,
            "%s with %.60s has no option '%.60s'", setup->config.task->name, setup->config.model.plan.text,
            name);
    FAIL_IF(strlen(option.preset) >= size, host, HASHATTN_INVALID,
            "the text of %s needs %zu chars, there is room for %zu", name, strlen(option.preset) + 1, size);
    strcpy(text, option.preset);
    return HASHATTN_OK;
}

/* An option that the stored model determines can only be set to its value there. */
static hashattn_status check_fixed(const struct hashattn_setup *setup, const struct option_row *row,
                                   const char *text)
{
    struct host *host = &setup->context->host;
    struct model_config wanted = setup->config.model;
    char stored[OPTION_TEXT_SIZE], given[OPTION_TEXT_SIZE];
    TRY(option_set(host, model_options, "model", &wanted, row->name, text));
    option_text(row, &setup->config.model, stored, sizeof stored);
    option_text(row, &wanted, given, sizeof given);
    FAIL_IF(strcmp(stored, given) != 0, host, HASHATTN_INVALID,
            "model: `%s` is %s in %.200s, where training starts; it cannot be %s", row->name, stored,
            setup->origin->directory, given);
    return HASHATTN_OK;
}

hashattn_status hashattn_setup_set(hashattn_setup *setup, const char *name, const char *text)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    FAIL_IF(name == NULL || text == NULL, host, HASHATTN_INVALID, "%s is NULL",
            name == NULL ? "the name of the option" : "the text of the option");
    struct owner owners[MOST_OWNERS];
    size_t count = owners_of(&setup->config, setup->data_options, owners);
    if (option_find(setup->config.task->options, name) == NULL &&
        head_plan_has(&setup->config.model.plan, name))
        return head_plan_set(host, &setup->config.model.plan, name, text);
    for (size_t o = 0; o < count; o++) {
        const struct option_row *row = option_find(owners[o].rows, name);
        if (row == NULL)
            continue;
        if (owners[o].rows == train_rows)
            return train_options_set(host, &setup->config.training, name, text);
        if (setup->origin != NULL && origin_fixes(setup->origin, row))
            return check_fixed(setup, row, text);
        TRY(option_set(host, owners[o].rows, owners[o].of, owners[o].values, name, text));
        if (row->learning)
            setup->learning = row;
        return HASHATTN_OK;
    }
    return host_fail(host, HASHATTN_INVALID, "%s with %.60s has no option '%.60s'", setup->config.task->name,
                     setup->config.model.plan.text, name);
}

/* ---- the setup ----------------------------------------------------------------------------------------- */

static void drop_origin(struct hashattn_setup *setup)
{
    struct host *host = &setup->context->host;
    if (setup->origin != NULL)
        origin_close(host, setup->origin);
    memory_free(host, setup->origin);
    setup->origin = NULL;
}

hashattn_status hashattn_setup_mechanism(hashattn_setup *setup, const char *mechanism)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    struct head_plan plan;
    FAIL_IF(mechanism == NULL, host, HASHATTN_INVALID, "the name of the mechanism is NULL");
    if (setup->origin != NULL) {
        TRY(origin_plan(host, setup->origin, mechanism, &plan));
    } else {
        TRY(head_plan_new(host, mechanism, &plan));
        hashattn_status status = head_plan_preset(host, &plan, setup->preset->attention);
        if (status != HASHATTN_OK) {
            head_plan_free(host, &plan);
            return status;
        }
    }
    head_plan_free(host, &setup->config.model.plan);
    setup->config.model.plan = plan;
    return HASHATTN_OK;
}

/* How encoders of the transformers library, and runs that come from one, are fine-tuned (Devlin et al. 2019),
   instead of the task's own options, which are of small models that begin with random values and whose rate,
   60 times as high, would undo the training. An explicit preset stays. */
static void take_fine_tuning(struct hashattn_setup *setup)
{
    const struct task *task = setup->config.task;
    if (!setup->config.pretrained || !task->fine_tunes || setup->preset != &task->preset)
        return;
    options_take(train_rows, &setup->config.training,
                 "epochs=3 batch=16 learning_rate=5e-5 schedule=linear weight_decay=0.01 beta2=0.999 "
                 "epsilon=1e-6");
    options_take(model_options, &setup->config.model, "dropout=0.1");
}

hashattn_status hashattn_setup_from(hashattn_setup *setup, const char *directory)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    struct model_config *model = &setup->config.model;
    struct head_plan plan;
    void *block;
    FAIL_IF(directory == NULL, host, HASHATTN_INVALID, "directory is NULL");
    TRY(memory_new(host, 1, sizeof *setup->origin, "a stored model", &block));
    struct origin *origin = block;
    hashattn_status status = origin_open(host, directory, origin);
    if (status == HASHATTN_OK) {
        status = origin_plan(host, origin, NULL, &plan);
        if (status != HASHATTN_OK)
            origin_close(host, origin);
    }
    if (status != HASHATTN_OK) {
        memory_free(host, block);
        return status;
    }
    drop_origin(setup);
    setup->origin = origin;
    strcpy(setup->config.from, origin->directory);
    setup->config.pretrained = origin->run.task == NULL || origin->run.pretrained;
    origin_architecture(origin, model);
    take_fine_tuning(setup);
    head_plan_free(host, &model->plan);
    model->plan = plan;
    return HASHATTN_OK;
}

hashattn_status hashattn_setup_freeze(hashattn_setup *setup, const char *names)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    FAIL_IF(names == NULL, host, HASHATTN_INVALID, "the names of parameters are NULL");
    FAIL_IF(strlen(names) >= sizeof setup->config.freeze, host, HASHATTN_INVALID,
            "freeze: the names are %zu bytes long, at most %zu fit", strlen(names),
            sizeof setup->config.freeze - 1);
    strcpy(setup->config.freeze, names);
    return HASHATTN_OK;
}

/* INVALID, with the presets of the task: it has none of this name. */
static hashattn_status find_preset(struct host *host, const struct task *task, const char *name,
                                   const struct task_preset **preset)
{
    char list[200] = "";
    *preset = task_preset_find(task, name);
    if (*preset != NULL)
        return HASHATTN_OK;
    for (const struct task_preset *row = task->presets; row != NULL && row->name != NULL; row++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ", row->name);
    }
    return host_fail(host, HASHATTN_INVALID, "%s has no preset '%.60s', %s%s", task->name, name,
                     list[0] == '\0' ? "nor any other" : "there are: ", list);
}

hashattn_status hashattn_setup_preset(hashattn_setup *setup, const char *preset)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct task_preset *found;
    TRY(find_preset(host, setup->config.task, preset == NULL ? "NULL" : preset, &found));
    FAIL_IF(setup->origin != NULL, host, HASHATTN_INVALID,
            "preset %s sets the options of the model, which start with those of %.200s: it must come first",
            preset, setup->origin->directory);
    setup->preset = found;
    take_preset(found, &setup->config.model, &setup->config.training);
    setup->config.model.precision = (int)setup->context->precision;
    options_take(setup->config.task->options, setup->config.task_options, found->task);
    if (found->plan != NULL)
        return hashattn_setup_mechanism(setup, found->plan);
    return head_plan_preset(host, &setup->config.model.plan, found->attention);
}

const char *hashattn_size_name(size_t index)
{
    size_t i = 0;
    while (i < index && model_sizes[i].name != NULL)
        i++;
    return model_sizes[i].name;
}

static hashattn_status find_size(struct host *host, const char *name, const struct model_size **row)
{
    char names[100] = "";
    for (*row = model_sizes; (*row)->name != NULL; (*row)++) {
        size_t used = strlen(names);
        if (name != NULL && strcmp((*row)->name, name) == 0)
            return HASHATTN_OK;
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", (*row)->name);
    }
    return host_fail(host, HASHATTN_INVALID, "no size '%.60s', there are: %s", name == NULL ? "NULL" : name,
                     names);
}

hashattn_status hashattn_setup_size(hashattn_setup *setup, const char *size)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    const struct model_size *row;
    TRY(find_size(&setup->context->host, size, &row));
    const struct {
        const char *name;
        int64_t value;
    } options[] = {{"layers", row->layers}, {"dim", row->dim}, {"heads", row->heads}, {"ffn", 4 * row->dim}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char text[24], stored[24];
        snprintf(text, sizeof text, "%lld", (long long)options[i].value);
        TRY(hashattn_setup_get(setup, options[i].name, stored, sizeof stored));
        FAIL_IF(setup->origin != NULL && strcmp(stored, text) != 0, &setup->context->host, HASHATTN_INVALID,
                "`size` is %s, which sets `%s` to %s; it is %s in %.200s, where training starts", row->name,
                options[i].name, text, stored, setup->origin->directory);
        TRY(hashattn_setup_set(setup, options[i].name, text));
    }
    return HASHATTN_OK;
}

static hashattn_status find_task(struct host *host, const char *name, const struct task **task)
{
    *task = name == NULL ? NULL : task_find(name);
    if (*task != NULL)
        return HASHATTN_OK;
    char list[300] = "";
    for (const struct task *const *all = task_table; *all != NULL; all++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ", (*all)->name);
    }
    return host_fail(host, HASHATTN_INVALID, "no task '%.60s', there are: %s", name == NULL ? "NULL" : name,
                     list);
}

hashattn_status hashattn_setup_new(hashattn_context *context, const char *task, hashattn_setup **out)
{
    FLOATING_DEFAULT;
    if (out != NULL)
        *out = NULL;
    if (context == NULL)
        return HASHATTN_INVALID; /* no context for a message */
    struct host *host = &context->host;
    FAIL_IF(out == NULL, host, HASHATTN_INVALID, "setup is NULL");
    const struct task *found;
    TRY(find_task(host, task, &found));
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "setup", &block));
    struct hashattn_setup *setup = block;
    setup->context = context;
    setup->config.task = found;
    setup->preset = &found->preset;
    take_preset(setup->preset, &setup->config.model, &setup->config.training);
    setup->config.model.precision = (int)context->precision;
    hashattn_status status =
        memory_new_zeroed(host, 1, found->options_size, "options", &setup->config.task_options);
    if (status == HASHATTN_OK) {
        options_preset(found->options, setup->config.task_options);
        status = memory_new_zeroed(host, 1, found->prepare_options_size, "options", &setup->data_options);
    }
    if (status == HASHATTN_OK) {
        if (setup->data_options != NULL)
            options_preset(found->prepare_options, setup->data_options);
        status = hashattn_setup_mechanism(setup, "yoso");
    }
    if (status != HASHATTN_OK)
        hashattn_setup_free(setup);
    else
        *out = setup;
    return status;
}

void hashattn_setup_free(hashattn_setup *setup)
{
    if (setup == NULL)
        return;
    struct host *host = &setup->context->host;
    drop_origin(setup);
    run_config_free(host, &setup->config);
    memory_free(host, setup->data_options);
    memory_free(host, setup);
}

/* With the ids of a stored model nothing is learned, whether it was chosen before the option or after it. */
static hashattn_status check_learning(const struct hashattn_setup *setup)
{
    const struct option_row *row = setup->learning;
    char given[OPTION_TEXT_SIZE];
    if (setup->origin == NULL || row == NULL)
        return HASHATTN_OK;
    option_text(row, setup->config.task_options, given, sizeof given);
    return host_fail(&setup->context->host, HASHATTN_INVALID,
                     "`%s` is %s, but nothing is learned: the ids are those of the model in %.200s; leave "
                     "the option out",
                     row->name, given, setup->origin->directory);
}

hashattn_status setup_take_data(struct hashattn_setup *setup, const char *data)
{
    struct host *host = &setup->context->host;
    struct run_config *config = &setup->config;
    TRY(run_config_set_data(host, config, data));
    task_facts_free(host, &config->facts);
    TRY(check_learning(setup));
    TRY(setup->origin != NULL
            ? origin_facts(host, setup->origin, config->task, config->task_options, config->data,
                           &config->facts)
            : config->task->facts(host, config->task_options, config->data, NULL, &config->facts));
    return run_config_take_facts(host, config);
}
