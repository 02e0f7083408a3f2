/* Which runs belong together: runs of one task, and runs of one model, which differ in their seeds only. A
   model is named by its attention and by what is unusual in its options: those that at most half of the
   task's runs have, and the names of those that more have and it has not. An option of an attention that all
   the task's runs with this attention have is left out: it tells none of them from another, and presets may
   set it differently for each task. Cost: each option of a run is looked up in all runs.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/tool/grow.h"

/* ---- names --------------------------------------------------------------------------------------------- */

/* The last `parts` parts of a path, without a slash at its end. */
static void tail_of(const char *path, size_t parts, char name[PLOT_NAME])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    for (size_t i = 0; i < parts && begin > 0; i++)
        for (begin -= i > 0; begin > 0 && path[begin - 1] != '/';)
            begin--;
    size_t size = end - begin;
    if (size >= PLOT_NAME) { /* the end tells more */
        begin = end - (PLOT_NAME - 1);
        size = PLOT_NAME - 1;
    }
    memcpy(name, path + begin, size);
    name[size] = '\0';
}

/* Two runs of different paths have one name. */
static bool is_ambiguous(const struct report_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(runs[i].name, runs[k].name) == 0 && strcmp(runs[i].path, runs[k].path) != 0)
                return true;
    return false;
}

void report_name_runs(struct report_run *runs, size_t count)
{
    enum { MOST_PARTS = 32 };
    for (size_t parts = 1; parts <= MOST_PARTS; parts++) {
        for (size_t i = 0; i < count; i++)
            tail_of(runs[i].path, parts, runs[i].name);
        if (!is_ambiguous(runs, count))
            return;
    }
}

/* ---- options ------------------------------------------------------------------------------------------- */

struct option {
    char name[2 * REPORT_KEY], value[120];
    bool usual;  /* more than half of the task's runs have it with this value */
    bool common; /* of the attention, and all the task's runs with this attention have it with this value */
    bool first;  /* no earlier run of the task has it with this value */
};

struct options_of_run {
    struct option *options;
    size_t count, capacity;
    bool no_memory;
};

static void take(void *user, const char *name, const char *text)
{
    struct options_of_run *taken = user;
    void *options = taken->options;
    if (strcmp(name, "seed") == 0)
        return;
    if (!grow(&options, &taken->capacity, taken->count, sizeof *taken->options)) {
        taken->no_memory = true;
        return;
    }
    taken->options = options;
    struct option *option = &taken->options[taken->count++];
    snprintf(option->name, sizeof option->name, "%s", name);
    snprintf(option->value, sizeof option->value, "%s", text);
}

/* The option of this name, or NULL. */
static const struct option *option_named(const struct options_of_run *taken, const char *name)
{
    for (size_t i = 0; i < taken->count; i++)
        if (strcmp(taken->options[i].name, name) == 0)
            return &taken->options[i];
    return NULL;
}

/* The option belongs to the run's attention. */
static bool is_of_attention(const struct report_run *run, const char *name)
{
    char path[3 * REPORT_KEY];
    snprintf(path, sizeof path, "attention.options.%s", name);
    for (char *c = path; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    return hashattn_value_find(run->config, path) != NULL;
}

static bool have_one_attention(const struct report_run *a, const struct report_run *b)
{
    char of_a[HASHATTN_NUMBER_TEXT], of_b[HASHATTN_NUMBER_TEXT];
    return strcmp(report_run_setting(a, "attention.name", of_a),
                  report_run_setting(b, "attention.name", of_b)) == 0;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

static size_t task_of(struct report_groups *groups, const char *name)
{
    for (size_t i = 0; i < groups->num_tasks; i++)
        if (strcmp(groups->tasks[i].name, name) == 0)
            return i;
    snprintf(groups->tasks[groups->num_tasks].name, sizeof groups->tasks->name, "%s", name);
    return groups->num_tasks++;
}

static size_t model_of(struct report_groups *groups, const char *name)
{
    for (size_t i = 0; i < groups->num_models; i++)
        if (strcmp(groups->models[i].name, name) == 0)
            return i;
    snprintf(groups->models[groups->num_models].name, PLOT_NAME, "%s", name);
    return groups->num_models++;
}

static void mark_option(const struct report_groups *groups, const struct report_run *runs,
                        const struct options_of_run *taken, size_t count, size_t self, struct option *option)
{
    size_t task = groups->members[self].task, having = 0;
    option->first = true;
    option->common = is_of_attention(&runs[self], option->name);
    for (size_t i = 0; i < count; i++) {
        if (groups->members[i].task != task)
            continue;
        const struct option *other = option_named(&taken[i], option->name);
        if (other != NULL && strcmp(other->value, option->value) == 0) {
            having++;
            option->first &= i >= self;
        } else if (have_one_attention(&runs[i], &runs[self]))
            option->common = false;
    }
    option->usual = 2 * having > groups->tasks[task].runs;
}

struct name {
    char *text; /* of PLOT_NAME */
    size_t used;
};

static void append(struct name *name, const char *first, const char *second)
{
    if (name->used < PLOT_NAME)
        name->used +=
            (size_t)snprintf(name->text + name->used, PLOT_NAME - name->used, ", %s %s", first, second);
}

static void name_model(const struct report_groups *groups, const struct report_run *runs,
                       const struct options_of_run *taken, size_t count, size_t self, char text[PLOT_NAME])
{
    char number[HASHATTN_NUMBER_TEXT];
    size_t task = groups->members[self].task;
    struct name name = {text, (size_t)snprintf(text, PLOT_NAME, "%.100s",
                                               report_run_setting(&runs[self], "attention.name", number))};
    for (size_t i = 0; i < taken[self].count; i++)
        if (!taken[self].options[i].usual && !taken[self].options[i].common)
            append(&name, taken[self].options[i].name, taken[self].options[i].value);
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; groups->members[k].task == task && i < taken[k].count; i++) {
            const struct option *option = &taken[k].options[i];
            if (option->usual && option->first && option_named(&taken[self], option->name) == NULL)
                append(&name, "default", option->name);
        }
}

bool report_group_runs(hashattn_context *context, const struct report_run *runs, size_t count,
                       struct report_groups *groups)
{
    struct options_of_run *taken = calloc(count + 1, sizeof *taken);
    *groups = (struct report_groups){.tasks = calloc(count + 1, sizeof *groups->tasks),
                                     .models = calloc(count + 1, sizeof *groups->models),
                                     .members = calloc(count + 1, sizeof *groups->members)};
    bool good = taken != NULL && groups->tasks != NULL && groups->models != NULL && groups->members != NULL;
    for (size_t i = 0; i < count && good; i++) {
        char number[HASHATTN_NUMBER_TEXT];
        groups->members[i].task = task_of(groups, report_run_setting(&runs[i], "task.name", number));
        if (runs[i].config != NULL)
            report_each_option(context, &runs[i], take, &taken[i]);
        struct report_task *task = &groups->tasks[groups->members[i].task];
        task->runs++;
        if (task->chooser[0] == '\0')
            snprintf(task->chooser, sizeof task->chooser, "%s", runs[i].chooser);
        good = !taken[i].no_memory;
    }
    for (size_t i = 0; i < count && good; i++)
        for (size_t k = 0; k < taken[i].count; k++)
            mark_option(groups, runs, taken, count, i, &taken[i].options[k]);
    for (size_t i = 0; i < count && good; i++) {
        char name[PLOT_NAME];
        name_model(groups, runs, taken, count, i, name);
        groups->members[i].model = model_of(groups, name);
    }
    for (size_t i = 0; taken != NULL && i < count; i++)
        free(taken[i].options);
    free(taken);
    return good;
}

void report_groups_free(struct report_groups *groups)
{
    free(groups->tasks);
    free(groups->models);
    free(groups->members);
    *groups = (struct report_groups){.num_tasks = 0};
}
