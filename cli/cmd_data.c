/* `data`: generates the train, valid and test files of one task.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/arguments.h"
#include "cli/shared/json_out.h"

static int generate(const struct options *options, hashattn_context *context, const char *directory,
                    const size_t counts[3])
{
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, options->operands[0], &setup);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(setup, options->settings[i].name, options->settings[i].text);
    if (status == HASHATTN_OK)
        status = hashattn_setup_generate(setup, directory, counts, options->common.seed);
    hashattn_setup_free(setup);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    if (!options->common.json) {
        if (!options->common.quiet)
            fprintf(stderr, "%s: %zu train, %zu valid, %zu test\n", directory, counts[0], counts[1],
                    counts[2]);
        return EXIT_GOOD;
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", options->operands[0]);
    json_out_text(&json, "directory", directory);
    json_out_count(&json, "train", counts[0]);
    json_out_count(&json, "valid", counts[1]);
    json_out_count(&json, "test", counts[2]);
    json_out_count(&json, "seed", options->common.seed);
    json_out_end_object(&json);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *directory = NULL;
    size_t counts[3] = {10000, 1000, 1000};
    options_begin(&options, self);
    options_add_text(&options, "out", &directory, "DIR", "directory of the files, created if absent");
    options_add_count(&options, "train", &counts[0], "N", "training examples (default 10000)", 0, 1e9);
    options_add_count(&options, "valid", &counts[1], "N", "validation examples (default 1000)", 0, 1e9);
    options_add_count(&options, "test", &counts[2], "N", "test examples (default 1000)", 0, 1e9);
    options_add_tasks(&options, "task", argv[1]);
    options.only_generated = true;
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "data needs one operand, the task; got %zu", options.num_operands);
    if (directory == NULL)
        return options_fail(&options, "data needs --out DIR");
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = generate(&options, context, directory, counts);
    tool_close(context);
    return code;
}

const struct command command_data = {
    .name = "data",
    .operands = "TASK",
    .summary = "Generates a data set: train, valid and test files",
    .example = "  hashattn data needle --out needles --train 20000 --valid 500 --test 2000 --seed 1\n",
    .run = run,
};
