/* `data describe`: shows what a training would read of a data set, without training.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/data/data_describe.h"

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/data_out.h"

static int work(const struct options *options, hashattn_context *context, const char *preset)
{
    const char *task = options->operands[0], *data = options->operands[1];
    hashattn_setup *setup = NULL;
    struct data_read read = {.count = 0};
    hashattn_status status = options_setup(options, context, task, preset, NULL, NULL, &setup);
    if (status == HASHATTN_OK)
        status = hashattn_setup_describe(setup, data, data_read_add, &read);
    hashattn_setup_free(setup);
    int code = read.no_memory          ? tool_fail(EXIT_RESOURCE, "no memory for the labels")
               : status != HASHATTN_OK ? tool_fail_status(context, status)
                                       : EXIT_GOOD;
    if (code == EXIT_GOOD && options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_text(&json, "task", task);
        json_out_text(&json, "data", data);
        data_read_json(&read, &json);
        json_out_end_object(&json);
    } else if (code == EXIT_GOOD) {
        data_read_words(&read, stdout);
    }
    data_read_free(&read);
    return code == EXIT_GOOD ? tool_finish() : code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *preset = NULL;
    options_begin(&options, self);
    options_add_preset(&options, &preset, argc > 1 ? argv[1] : NULL);
    options_add_tasks(&options, NULL, argc > 1 ? argv[1] : NULL);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 2)
        return options_fail(&options, "data describe needs two operands, the task and the data; got %zu",
                            options.num_operands);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&options, context, preset);
    tool_close(context);
    return code;
}

const struct command data_describe = {
    .name = "data describe",
    .operands = "TASK DIR",
    .summary = "Shows what a training would read: examples, lengths, labels with their counts, and columns",
    .example =
        "  mkdir mail\n"
        "  for i in $(seq 20); do printf 'spam\\tbuy now\\nham\\tsee you at noon\\n'; done > mail/train.tsv\n"
        "  hashattn data describe text mail\n",
    .run = run,
};
