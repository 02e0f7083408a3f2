/* `data`: makes the train, valid and test files of one task, from nothing (needle, listops, pathfinder) or
   from texts (mlm). It stops at the first SIGINT without leaving a file. Its kind `describe` shows a data
   set.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/data/data_describe.h"
#include "cli/shared/options/arguments.h"
#include "cli/shared/options/kinds.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/output/progress.h"
#include "cli/shared/tool/tool.h"

static const char *const split_names[3] = {"train", "valid", "test"};

struct data {
    const char *directory;
    size_t counts[3];         /* of generated examples */
    hashattn_sources sources; /* of texts */
    bool prepares;            /* the task's data is made from texts */
};

/* The named task's data is made from texts. */
static bool made_from_texts(const char *name)
{
    hashattn_task_info task = {.struct_size = sizeof task};
    for (size_t i = 0; name != NULL && hashattn_task_get(i, &task); i++)
        if (strcmp(task.name, name) == 0)
            return task.prepares;
    return false;
}

static void report_json(const struct options *options, const struct data *data, const size_t counts[3],
                        const hashattn_prepared *prepared)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", options->operands[0]);
    json_out_text(&json, "directory", data->directory);
    for (int i = 0; i < 3; i++)
        json_out_count(&json, split_names[i], counts[i]);
    if (data->prepares) {
        json_out_count(&json, "documents", prepared->documents);
        json_out_count(&json, "tokens", prepared->tokens[0] + prepared->tokens[1] + prepared->tokens[2]);
        json_out_count(&json, "dropped_tokens", prepared->dropped);
    }
    json_out_count(&json, "seed", options->common.seed);
    json_out_end_object(&json);
}

static int show(void *user, uint64_t done, uint64_t total)
{
    char words[60];
    snprintf(words, sizeof words, "%.1f MB of text", (double)done / 1e6);
    progress_show(user, (int64_t)done, (int64_t)(total > done ? total : done), words);
    return 0;
}

static hashattn_status prepare(const struct options *options, hashattn_setup *setup, struct data *data,
                               hashattn_prepared *prepared)
{
    struct progress progress = progress_begin(options->common.quiet);
    data->sources.files = options->operands + 1;
    data->sources.num_files = options->num_operands - 1;
    data->sources.seed = options->common.seed;
    data->sources.progress = show;
    data->sources.user = &progress;
    hashattn_status status = hashattn_setup_prepare(setup, &data->sources, data->directory, prepared);
    progress_end(&progress);
    return status;
}

static int work(const struct options *options, hashattn_context *context, struct data *data)
{
    hashattn_setup *setup;
    hashattn_prepared prepared = {.struct_size = sizeof prepared};
    const size_t *counts = data->prepares ? prepared.examples : data->counts;
    hashattn_status status = hashattn_setup_new(context, options->operands[0], &setup);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(setup, options->settings[i].name, options->settings[i].text);
    if (status == HASHATTN_OK)
        status = data->prepares
                     ? prepare(options, setup, data, &prepared)
                     : hashattn_setup_generate(setup, data->directory, data->counts, options->common.seed);
    hashattn_setup_free(setup);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    if (!options->common.json) {
        if (!options->common.quiet)
            tool_line(stderr, "%s: %zu train, %zu valid, %zu test", data->directory, counts[0], counts[1],
                      counts[2]);
        return EXIT_GOOD;
    }
    report_json(options, data, counts, &prepared);
    return tool_finish();
}

static void add_options(struct options *options, struct data *data, const char *task)
{
    options_add_text(options, "out", &data->directory, "DIR", "directory of the files, created if absent");
    if (data->prepares) {
        options_add_text(options, "tokenizer", &data->sources.tokenizer, "DIR",
                         "directory of the tokenizer, see tokenizer train");
        options_add_text(options, "valid", &data->sources.valid, "FILE",
                         "text of the validation set (default: documents drawn from the others)");
        options_add_text(options, "test", &data->sources.test, "FILE",
                         "text of the test set (default: none)");
        options_add_tasks(options, "data", task);
        return;
    }
    options_add_count(options, "train", &data->counts[0], "N", "training examples (default 10000)", 0, 1e9);
    options_add_count(options, "valid", &data->counts[1], "N", "validation examples (default 1000)", 0, 1e9);
    options_add_count(options, "test", &data->counts[2], "N", "test examples (default 1000)", 0, 1e9);
    options_add_tasks(options, "task", task);
}

enum { MOST_NAMES = 128 };

/* The first operand is a task, or should have been the first argument. Names those that data can be made of,
   and the kinds. */
static int check_first(const struct options *options, const char *word)
{
    const char *names[MOST_NAMES];
    size_t count = 0;
    hashattn_task_info task = {.struct_size = sizeof task};
    if (kinds_find(options->command, word) != NULL)
        return options_fail(options, "data %s: the kind must come before options", word);
    for (size_t i = 0; hashattn_task_get(i, &task); i++)
        if (strcmp(task.name, word) == 0)
            return EXIT_GOOD;
        else if ((task.generates || task.prepares) && count + 1 < MOST_NAMES)
            names[count++] = task.name;
    names[count++] = "describe";
    return options_check_name(options, "task or kind", word, names, count);
}

static int check_usage(const struct options *options, const struct data *data)
{
    if (options->num_operands > 0 && check_first(options, options->operands[0]) != EXIT_GOOD)
        return EXIT_USAGE;
    if (!data->prepares && options->num_operands != 1)
        return options_fail(options, "data needs one operand, the task; got %zu", options->num_operands);
    if (data->prepares && options->num_operands < 2)
        return options_fail(options, "data %s needs a file of text", options->operands[0]);
    if (data->directory == NULL)
        return options_fail(options, "data needs --out DIR");
    if (data->prepares && data->sources.tokenizer == NULL)
        return options_fail(options, "data %s needs --tokenizer DIR", options->operands[0]);
    return EXIT_GOOD;
}

static const struct command *const kinds[] = {&data_describe, NULL};

static int run(const struct command *self, int argc, char **argv)
{
    const struct command *kind = argc > 1 ? kinds_find(self, argv[1]) : NULL;
    if (kind != NULL)
        return kind->run(kind, argc - 1, argv + 1);
    struct options options;
    struct data data = {.counts = {10000, 1000, 1000}, .prepares = made_from_texts(argv[1])};
    hashattn_sources_default(&data.sources);
    options_begin(&options, self);
    add_options(&options, &data, argv[1]);
    options.only_generated = true;
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    code = check_usage(&options, &data);
    if (code != EXIT_GOOD)
        return code;
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&options, context, &data);
    tool_close(context);
    return code;
}

const struct command command_data = {
    .name = "data",
    .operands = "TASK [FILE...]",
    .summary = "Makes a data set: generates examples, or turns texts into tokens (data mlm --help)",
    .example = "  hashattn data needle --out needles --train 20000 --valid 500 --test 2000 --seed 1\n"
               "  for i in $(seq 200); do echo \"The cat sat on mat $i. The dog lay on log $i.\"; echo; done "
               "> cats.txt\n"
               "  hashattn tokenizer train cats.txt --vocab-size 300 --out tokens\n"
               "  hashattn data mlm cats.txt --tokenizer tokens --seq-len 64 --out pretraining\n",
    .kinds = kinds,
    .run = run,
};
