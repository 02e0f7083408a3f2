/* The table of options: rows are added, found by name and compared.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/command_options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/tool/ranks.h"

/* Only this program fills the tables, so a full one is a bug. */
static size_t next_place(size_t *count, size_t capacity)
{
    if (*count == capacity) {
        fprintf(stderr, "hashattn: a table of %zu options is full\n", capacity);
        abort();
    }
    return (*count)++;
}

static void add(struct options *options, struct option row)
{
    options->rows[next_place(&options->num_rows, MOST_OPTIONS)] = row;
}

void options_add_text(struct options *options, const char *name, const char **target, const char *argument,
                      const char *help)
{
    add(options,
        (struct option){
            .name = name, .kind = OPTION_TEXT, .target = target, .argument = argument, .help = help});
}

void options_offer(struct options *options, const char *const *values)
{
    options->rows[options->num_rows - 1].values = values;
}

void options_add_count(struct options *options, const char *name, size_t *target, const char *argument,
                       const char *help, double minimum, double maximum)
{
    add(options, (struct option){name, OPTION_COUNT, target, argument, help, minimum, maximum, NULL, false});
}

void options_add_number(struct options *options, const char *name, double *target, const char *argument,
                        const char *help, double minimum, double maximum)
{
    add(options, (struct option){name, OPTION_NUMBER, target, argument, help, minimum, maximum, NULL, false});
}

void options_add_switch(struct options *options, const char *name, int *target, const char *help)
{
    add(options, (struct option){.name = name, .kind = OPTION_SWITCH, .target = target, .help = help});
}

void options_add_list(struct options *options, const char *name, struct text_list *target,
                      const char *argument, const char *help)
{
    add(options,
        (struct option){
            .name = name, .kind = OPTION_LIST, .target = target, .argument = argument, .help = help});
}

/* hashattn_task_count(): there is none. */
static size_t find_task(const char *name)
{
    hashattn_task_info task = {.struct_size = sizeof task};
    size_t i = 0;
    while (hashattn_task_get(i, &task) && (name == NULL || strcmp(task.name, name) != 0))
        i++;
    return i;
}

void options_only_forecasts(struct options *options, const char *named)
{
    hashattn_task_info task = {.struct_size = sizeof task};
    if (hashattn_task_get(find_task(named), &task))
        options->rows[options->num_rows - 1].hidden = !task.forecasts;
}

void options_add_device(struct options *options)
{
    static const char *const devices[] = {"cpu", "cuda", NULL};
    options_add_text(
        options, "device", &options->common.device, "NAME",
        "where to compute: cpu (default), cuda or cuda:N, an NVIDIA GPU from `hashattn info`, which "
        "computes yoso");
    options_offer(options, devices);
}

void options_add_ranks(struct options *options)
{
    int rank, size;
    ranks_place(&rank, &size);
    options->common.joins = true;
    options->common.quiet = rank > 0; /* rank 0 speaks for all */
    options->common.comm_timeout = 600;
    options_add_number(
        options, "comm-timeout", &options->common.comm_timeout, "T",
        "under mpirun: all ranks end if one does not answer for T seconds (default 600; 0: no limit)", 0,
        1e9);
}

void options_add_split(struct options *options, const char **split, const char *help)
{
    static const char *const splits[] = {"train", "valid", "test", NULL};
    options_add_text(options, "split", split, "NAME", help);
    options_offer(options, splits);
}

/* Fills options->presets with the names of the task's presets, or of those of all tasks, each once. */
static void list_presets(struct options *options, const char *named)
{
    size_t count = 0, only = find_task(named);
    const char *name;
    for (size_t task = 0; task < hashattn_task_count(); task++)
        for (size_t i = 0; (name = hashattn_task_preset(task, i)) != NULL; i++) {
            size_t at = 0;
            while (at < count && strcmp(options->presets[at], name) != 0)
                at++;
            if (at == count && (only == hashattn_task_count() || only == task))
                options->presets[next_place(&count, MOST_PRESETS)] = name;
        }
    options->presets[count] = NULL;
}

/* "lra: ...; bert: ..." of the presets that are offered. */
static void tell_presets(struct options *options)
{
    static const struct {
        const char *name, *help;
    } presets[] = {
        {"lra", "model and training as in the released Long Range Arena configurations"},
        {"lra-small", "the Long Range Arena in minutes"},
        {"bert", "as in BERT's pretraining"},
        {"lha-lm", "LHA's released language model, with heads of local and lha"},
        {"informer", "Informer on ETTh1"},
    };
    size_t used = 0;
    for (size_t i = 0; options->presets[i] != NULL; i++)
        for (size_t k = 0; k < sizeof presets / sizeof *presets; k++)
            if (strcmp(presets[k].name, options->presets[i]) == 0)
                used += (size_t)snprintf(options->preset_help + used, sizeof options->preset_help - used,
                                         "%s%s: %s", used == 0 ? "" : "; ", presets[k].name, presets[k].help);
}

void options_add_preset(struct options *options, const char **preset, const char *named)
{
    options_add_text(options, "preset", preset, "NAME", options->preset_help);
    list_presets(options, named);
    tell_presets(options);
    options_offer(options, options->presets);
    options->rows[options->num_rows - 1].hidden = options->presets[0] == NULL;
    options_add_text(
        options, "size", &options->size, "NAME",
        "layers, dim, heads and ffn: tiny (2 x 128), mini (4 x 256), small (4 x 512) or base (12 x "
        "768), with heads of 64 and an ffn of 4 dim");
    size_t count = 0;
    for (size_t i = 0; hashattn_size_name(i) != NULL; i++)
        options->sizes[next_place(&count, MOST_SIZES)] = hashattn_size_name(i);
    options_offer(options, options->sizes);
}

void options_begin(struct options *options, const struct command *command)
{
    *options = (struct options){.command = command, .common = {.isa = "auto"}};
    struct common *common = &options->common;
    options_add_count(options, "threads", &common->threads, "N",
                      "number of threads (default: all processors)", 1, 1024);
    options_add_text(options, "isa", &common->isa, "NAME",
                     "instruction set from `hashattn info`, or auto (default)");
    options_offer(options, hashattn_isa_names());
    options_add_text(options, "precision", &common->precision, "NAME",
                     "float32 or bf16, for matrix products and for the arrays of attend "
                     "and bench (default float32; for a trained run: as in training)");
    static const char *const precisions[] = {"float32", "bf16", NULL};
    options_offer(options, precisions);
    add(options, (struct option){.name = "seed",
                                 .kind = OPTION_SEED,
                                 .target = &common->seed,
                                 .argument = "N",
                                 .help = "random seed (default 0; for a trained run: as in training)"});
    options_add_switch(options, "json", &common->json, "print the result as JSON on stdout");
    options_add_switch(options, "quiet", &common->quiet, "print only errors on stderr");
    options_add_switch(options, "help", &options->help, "print this help");
}

void options_dashed(const char *name, char dashed[OPTION_NAME])
{
    snprintf(dashed, OPTION_NAME, "%s", name);
    for (char *c = dashed; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
}

/* The command line has dashes instead of the library's underscores. */
static bool same_name(const char *dashed, const char *name)
{
    for (; *dashed != '\0' && (*dashed == *name || (*dashed == '-' && *name == '_')); dashed++)
        name++;
    return *dashed == '\0' && *name == '\0';
}

/* For two options of one type: both lists are NULL, or none is. */
static bool same_choices(const char *const *a, const char *const *b)
{
    if (a == NULL)
        return true;
    while (*a != NULL && *b != NULL && strcmp(*a, *b) == 0)
        a++, b++;
    return *a == *b; /* NULL at the end of both */
}

bool options_same(const hashattn_option *a, const hashattn_option *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->owner, b->owner) == 0 && a->type == b->type &&
           a->minimum == b->minimum && a->maximum == b->maximum && strcmp(a->preset, b->preset) == 0 &&
           same_choices(a->choices, b->choices) && strcmp(a->help, b->help) == 0;
}

void options_add_library(struct options *options, const hashattn_option *row)
{
    bool of_mechanism = strcmp(row->owner, "attention") == 0;
    for (size_t i = 0; i < options->num_library; i++)
        if (of_mechanism ? options_same(&options->library[i], row)
                         : strcmp(options->library[i].name, row->name) == 0) {
            options->library[i].unread &= row->unread;
            return;
        }
    for (size_t i = 0; i < options->num_rows; i++)
        if (same_name(options->rows[i].name, row->name))
            return;
    options->library[next_place(&options->num_library, MOST_LIBRARY)] = *row;
}

void options_add_mechanisms(struct options *options)
{
    hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
    hashattn_option row = {.struct_size = sizeof row};
    for (size_t i = 0; hashattn_mechanism_get(i, &mechanism); i++)
        for (size_t j = 0; hashattn_mechanism_option(i, j, &row); j++)
            options_add_library(options, &row);
}

static void add_task(struct options *options, size_t task, const char *owner)
{
    hashattn_option row = {.struct_size = sizeof row};
    for (size_t i = 0; hashattn_task_option(task, i, &row); i++)
        if (owner == NULL ? strcmp(row.owner, "data") != 0 : strcmp(owner, row.owner) == 0)
            options_add_library(options, &row);
}

void options_add_tasks(struct options *options, const char *owner, const char *named)
{
    hashattn_task_info task = {.struct_size = sizeof task};
    size_t only = find_task(named);
    if (hashattn_task_get(only, &task)) {
        add_task(options, only, owner);
        options->task = task.name;
        options->task_sets = owner == NULL ? task.attention : NULL;
        return;
    }
    for (size_t i = 0; i < hashattn_task_count(); i++)
        add_task(options, i, owner);
}

int options_fail(const struct options *options, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tool_fail(EXIT_USAGE, "%s (see hashattn %s%s%s --help)", text, options->command->name,
                     options->task == NULL ? "" : " ", options->task == NULL ? "" : options->task);
}

const struct option *options_find(const struct options *options, const char *name,
                                  const hashattn_option **library, bool *negated)
{
    for (size_t i = 0; i < options->num_rows; i++)
        if (strcmp(options->rows[i].name, name) == 0)
            return &options->rows[i];
    for (size_t i = 0; i < options->num_library && *library == NULL; i++) {
        const hashattn_option *row = &options->library[i];
        *negated = row->type == HASHATTN_OPTION_FLAG && strncmp(name, "no-", 3) == 0 &&
                   same_name(name + 3, row->name);
        if (*negated || same_name(name, row->name))
            *library = row;
    }
    return NULL;
}

size_t options_scope(const char *name)
{
    hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
    size_t size = strcspn(name, ".");
    for (size_t i = 0; name[size] == '.' && hashattn_mechanism_get(i, &mechanism); i++)
        if (strlen(mechanism.name) == size && strncmp(name, mechanism.name, size) == 0)
            return size + 1;
    return 0;
}
