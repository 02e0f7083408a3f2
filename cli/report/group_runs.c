/* Which runs belong together: runs of one task, data set and metric, and runs of one model, which differ in
   their seeds only. A model is named by its attention and by what is unusual in its options: those that at
   most half of the task's runs have, and the names of those that more have and it has not. An option of an
   attention that all the task's runs with this attention have is left out: it tells none of them from
   another, and presets may set it differently for each task. How often a run is evaluated and saved is no
   property of its model. Cost: names and options are sorted; n log n for n runs.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/tool/grow.h"

/* ---- numbering names ----------------------------------------------------------------------------------- */

/* The name of one run, among those of its group. */
struct named {
    size_t group;
    const char *name;
    size_t run;
};

static int compare_sizes(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static bool is_same(const struct named *a, const struct named *b)
{
    return a->group == b->group && strcmp(a->name, b->name) == 0;
}

static int compare_named(const void *one, const void *other)
{
    const struct named *a = one, *b = other;
    int order = compare_sizes(a->group, b->group);
    if (order == 0)
        order = strcmp(a->name, b->name);
    return order != 0 ? order : compare_sizes(a->run, b->run);
}

/* Sorts the names of all runs, one each, and numbers the different ones from 0 in the order of the runs.
   Returns how many there are. */
static size_t number_names(struct named *names, size_t count, size_t *number)
{
    size_t found = 0, first = 0;
    qsort(names, count, sizeof *names, compare_named);
    for (size_t i = 0; i < count; i++) { /* the first run of the same name, in place of its number */
        first = i > 0 && is_same(&names[i - 1], &names[i]) ? first : names[i].run;
        number[names[i].run] = first;
    }
    for (size_t i = 0; i < count; i++)
        number[i] = number[i] == i ? found++ : number[number[i]];
    return found;
}

/* ---- options ------------------------------------------------------------------------------------------- */

struct option {
    char name[2 * REPORT_KEY], value[120];
    size_t run, task, kind;
    bool usual;  /* more than half of the task's runs have it with this value */
    bool common; /* of the attention, and all the task's runs with this attention have it with this value */
    bool first;  /* no earlier run of the task has it with this value */
};

struct grouping {
    const struct report_run *runs;
    size_t count;
    struct report_groups *groups;
    struct run_facts {
        char number[2][HASHATTN_NUMBER_TEXT]; /* for the following */
        const char *task_name, *attention;
        char task[3 * PLOT_NAME]; /* task, data and metric, one under the other */
        char model[PLOT_NAME];
        size_t options; /* its first option; the next run's is behind its last */
    } * facts;          /* (count + 1) */
    struct named *names;
    size_t *number;         /* (count) */
    size_t *kind_runs;      /* (count) a kind is a task with an attention */
    struct option *options; /* (num_options) of all runs */
    size_t num_options, capacity, taking;
    const struct option **usual; /* (num_options) the usual ones of a task follow one another */
    size_t *usual_of;            /* (tasks + 1) where those of a task begin */
    bool no_memory;
};

static void take(void *user, const char *name, const char *text, bool is_flag)
{
    static const char *const of_no_model[] = {"seed", "eval-every", "save-every"};
    struct grouping *g = user;
    void *options = g->options;
    (void)is_flag;
    for (size_t i = 0; i < sizeof of_no_model / sizeof *of_no_model; i++)
        if (strcmp(name, of_no_model[i]) == 0)
            return;
    if (!grow(&options, &g->capacity, g->num_options, sizeof *g->options)) {
        g->no_memory = true;
        return;
    }
    g->options = options;
    struct option *option = &g->options[g->num_options++];
    *option = (struct option){.run = g->taking};
    snprintf(option->name, sizeof option->name, "%s", name);
    bool is_path = strcmp(name, "from") == 0 && strrchr(text, '/') != NULL; /* its end tells more */
    snprintf(option->value, sizeof option->value, "%s", is_path ? strrchr(text, '/') + 1 : text);
}

/* True if the run has an option of this name. */
static bool has_option(const struct grouping *g, size_t run, const char *name)
{
    for (size_t i = g->facts[run].options; i < g->facts[run + 1].options; i++)
        if (strcmp(g->options[i].name, name) == 0)
            return true;
    return false;
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

static int compare_values(const struct option *a, const struct option *b)
{
    int order = compare_sizes(a->task, b->task);
    if (order == 0)
        order = strcmp(a->name, b->name);
    return order != 0 ? order : strcmp(a->value, b->value);
}

static int compare_options(const void *one, const void *other)
{
    const struct option *a = *(struct option *const *)one, *b = *(struct option *const *)other;
    int order = compare_values(a, b);
    if (order == 0)
        order = compare_sizes(a->kind, b->kind);
    return order != 0 ? order : compare_sizes(a->run, b->run);
}

/* list: the options of a task with one name and value, by kind and run. */
static void mark_value(const struct grouping *g, struct option *const *list, size_t count)
{
    struct option *first = list[0];
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && list[end]->kind == list[begin]->kind; end++)
            first = list[end]->run < first->run ? list[end] : first;
        bool all = end - begin == g->kind_runs[list[begin]->kind];
        for (size_t i = begin; i < end; i++) {
            list[i]->usual = 2 * count > g->groups->tasks[list[i]->task].runs;
            list[i]->common = all && is_of_attention(&g->runs[list[i]->run], list[i]->name);
        }
    }
    first->first = true;
}

static bool mark_options(struct grouping *g)
{
    struct option **sorted = calloc(g->num_options + 1, sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < g->num_options; i++)
        sorted[i] = &g->options[i];
    qsort(sorted, g->num_options, sizeof *sorted, compare_options);
    for (size_t begin = 0, end; begin < g->num_options; begin = end) {
        for (end = begin; end < g->num_options && compare_values(sorted[begin], sorted[end]) == 0;)
            end++;
        mark_value(g, sorted + begin, end - begin);
    }
    free(sorted);
    return true;
}

static int compare_usual(const void *one, const void *other)
{
    const struct option *a = *(const struct option *const *)one, *b = *(const struct option *const *)other;
    int order = compare_sizes(a->task, b->task);
    return order != 0 ? order : (a > b) - (a < b);
}

/* Lists the usual options of each task once, in the order of the runs that have them first. */
static bool list_usual(struct grouping *g)
{
    size_t found = 0, tasks = g->groups->num_tasks;
    g->usual = calloc(g->num_options + 1, sizeof *g->usual);
    g->usual_of = calloc(tasks + 1, sizeof *g->usual_of);
    if (g->usual == NULL || g->usual_of == NULL)
        return false;
    for (size_t i = 0; i < g->num_options; i++)
        if (g->options[i].usual && g->options[i].first)
            g->usual[found++] = &g->options[i];
    qsort(g->usual, found, sizeof *g->usual, compare_usual);
    for (size_t task = 0, at = 0; task <= tasks; task++) {
        while (at < found && g->usual[at]->task < task)
            at++;
        g->usual_of[task] = at;
    }
    return true;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

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

static void name_model(const struct grouping *g, size_t run)
{
    struct run_facts *facts = &g->facts[run];
    struct name name = {facts->model, (size_t)snprintf(facts->model, PLOT_NAME, "%.100s", facts->attention)};
    for (size_t i = facts->options; i < facts[1].options; i++)
        if (!g->options[i].usual && !g->options[i].common)
            append(&name, g->options[i].name, g->options[i].value);
    size_t task = g->groups->members[run].task;
    for (size_t i = g->usual_of[task]; i < g->usual_of[task + 1]; i++)
        if (!has_option(g, run, g->usual[i]->name))
            append(&name, "default", g->usual[i]->name);
}

static bool read_runs(struct grouping *g, hashattn_context *context)
{
    for (size_t i = 0; i < g->count; i++) {
        struct run_facts *facts = &g->facts[i];
        facts->task_name = report_run_setting(&g->runs[i], "task.name", facts->number[0]);
        facts->attention = report_run_setting(&g->runs[i], "attention.name", facts->number[1]);
        snprintf(facts->task, sizeof facts->task, "%s\n%s\n", facts->task_name, g->runs[i].data);
        g->taking = i;
        if (g->runs[i].config != NULL)
            report_each_option(context, &g->runs[i], take, g);
        facts[1].options = g->num_options;
    }
    return !g->no_memory;
}

/* A task is named with its data where the page has runs of it on other data. */
static bool name_tasks(struct grouping *g)
{
    struct on_data {
        const char *data;
        bool several;
    } *found = calloc(g->count + 1, sizeof *found);
    if (found == NULL)
        return false;
    for (size_t i = 0; i < g->count; i++)
        g->names[i] = (struct named){0, g->facts[i].task_name, i};
    number_names(g->names, g->count, g->number);
    for (size_t i = 0; i < g->count; i++) {
        struct on_data *of = &found[g->number[i]];
        of->several |= of->data != NULL && strcmp(of->data, g->runs[i].data) != 0;
        of->data = g->runs[i].data;
    }
    for (size_t i = 0; i < g->count; i++) {
        struct report_task *task = &g->groups->tasks[g->groups->members[i].task];
        snprintf(task->name, sizeof task->name, found[g->number[i]].several ? "%.60s, %.130s" : "%.60s",
                 g->facts[i].task_name, g->runs[i].data);
    }
    free(found);
    return true;
}

/* Completes the names of tasks. A run that was not evaluated has the metric of a run of its task and data. */
static void add_metrics(struct grouping *g)
{
    struct report_task *found = g->groups->tasks;
    for (size_t i = 0; i < g->count; i++)
        g->names[i] = (struct named){0, g->facts[i].task, i};
    number_names(g->names, g->count, g->number);
    for (size_t i = 0; i < g->count; i++)
        if (found[g->number[i]].chooser[0] == '\0')
            snprintf(found[g->number[i]].chooser, sizeof found->chooser, "%s", g->runs[i].chooser);
    for (size_t i = 0; i < g->count; i++) {
        const char *own = g->runs[i].chooser, *metric = *own != '\0' ? own : found[g->number[i]].chooser;
        strncat(g->facts[i].task, metric, sizeof g->facts[i].task - strlen(g->facts[i].task) - 1);
    }
}

static void find_tasks(struct grouping *g)
{
    struct report_groups *groups = g->groups;
    add_metrics(g);
    for (size_t i = 0; i < g->count; i++)
        g->names[i] = (struct named){0, g->facts[i].task, i};
    groups->num_tasks = number_names(g->names, g->count, g->number);
    for (size_t i = 0; i < g->count; i++) {
        struct report_task *task = &groups->tasks[groups->members[i].task = g->number[i]];
        task->runs++;
        snprintf(task->chooser, sizeof task->chooser, "%s", strrchr(g->facts[i].task, '\n') + 1);
    }
    for (size_t task = 1; task < groups->num_tasks; task++)
        groups->tasks[task].begin = groups->tasks[task - 1].begin + groups->tasks[task - 1].runs;
    size_t *next = g->kind_runs; /* counted later */
    for (size_t i = 0; i < g->count; i++) {
        size_t task = groups->members[i].task;
        groups->by_task[groups->tasks[task].begin + next[task]++] = i;
    }
    memset(next, 0, g->count * sizeof *next);
}

/* Tasks and kinds of the options. */
static void find_kinds(struct grouping *g)
{
    for (size_t i = 0; i < g->count; i++)
        g->names[i] = (struct named){g->groups->members[i].task, g->facts[i].attention, i};
    number_names(g->names, g->count, g->number);
    for (size_t i = 0; i < g->count; i++)
        g->kind_runs[g->number[i]]++;
    for (size_t i = 0; i < g->num_options; i++) {
        g->options[i].task = g->groups->members[g->options[i].run].task;
        g->options[i].kind = g->number[g->options[i].run];
    }
}

static void find_models(struct grouping *g)
{
    struct report_groups *groups = g->groups;
    for (size_t i = 0; i < g->count; i++) {
        name_model(g, i);
        g->names[i] = (struct named){0, g->facts[i].model, i};
    }
    groups->num_models = number_names(g->names, g->count, g->number);
    for (size_t i = 0; i < g->count; i++) {
        groups->members[i].model = g->number[i];
        memcpy(groups->models[g->number[i]].name, g->facts[i].model, PLOT_NAME);
    }
}

bool report_group_runs(hashattn_context *context, const struct report_run *runs, size_t count,
                       struct report_groups *groups)
{
    *groups = (struct report_groups){.tasks = calloc(count + 1, sizeof *groups->tasks),
                                     .models = calloc(count + 1, sizeof *groups->models),
                                     .members = calloc(count + 1, sizeof *groups->members),
                                     .by_task = calloc(count + 1, sizeof *groups->by_task)};
    struct grouping g = {.runs = runs,
                         .count = count,
                         .groups = groups,
                         .facts = calloc(count + 1, sizeof *g.facts),
                         .names = calloc(count + 1, sizeof *g.names),
                         .number = calloc(count + 1, sizeof *g.number),
                         .kind_runs = calloc(count + 1, sizeof *g.kind_runs)};
    bool good = groups->tasks != NULL && groups->models != NULL && groups->members != NULL &&
                groups->by_task != NULL && g.facts != NULL && g.names != NULL && g.number != NULL &&
                g.kind_runs != NULL && read_runs(&g, context);
    if (good) {
        find_tasks(&g);
        find_kinds(&g);
        good = name_tasks(&g) && mark_options(&g) && list_usual(&g);
    }
    if (good)
        find_models(&g);
    free(g.facts);
    free(g.names);
    free(g.number);
    free(g.kind_runs);
    free(g.options);
    free(g.usual);
    free(g.usual_of);
    return good;
}

void report_groups_free(struct report_groups *groups)
{
    free(groups->tasks);
    free(groups->models);
    free(groups->members);
    free(groups->by_task);
    *groups = (struct report_groups){.num_tasks = 0};
}
