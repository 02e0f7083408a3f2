/* `export`: a run as a directory that the transformers library opens.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/tool.h"

static void report(const struct options *options, const hashattn_pretrained_info *info, const char *out)
{
    char output[60] = "without an output";
    if (info->num_scores > 0)
        snprintf(output, sizeof output, "with the output for masked tokens");
    else if (info->num_labels > 0)
        snprintf(output, sizeof output, "with a classifier of %zu output%s", info->num_labels,
                 info->num_labels == 1 ? "" : "s");
    if (options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_text(&json, "type", info->type);
        json_out_text(&json, "attention", info->mechanism);
        json_out_count(&json, "layers", info->layers);
        json_out_count(&json, "dim", info->dim);
        json_out_flag(&json, "masked_tokens", info->num_scores > 0);
        json_out_count(&json, "labels", info->num_labels);
        json_out_end_object(&json);
    } else if (!options->common.quiet) {
        tool_line(stderr, "%s: an encoder of type %s, %zu layer%s of width %zu, %s", out, info->type,
                  info->layers, info->layers == 1 ? "" : "s", info->dim, output);
        if (strcmp(info->mechanism, "yoso") == 0)
            fprintf(stderr,
                    "that library computes yoso on NVIDIA GPUs only; for processors, --attention yoso-e "
                    "writes its expectation\n");
    }
}

/* What was written, as a reader of the directory finds it. */
static int describe(const struct options *options, hashattn_context *context, const char *out)
{
    hashattn_pretrained *written;
    hashattn_pretrained_info info = {.struct_size = sizeof info};
    hashattn_status status = hashattn_pretrained_load(context, out, NULL, &written);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    hashattn_pretrained_describe(written, &info);
    report(options, &info, out);
    hashattn_pretrained_free(written);
    return tool_finish();
}

static int work(const struct options *options, hashattn_context *context, const char *attention,
                bool encoder_only, const char *out)
{
    hashattn_pretrained *pretrained;
    hashattn_status status = hashattn_pretrained_load(context, options->operands[0], attention, &pretrained);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_pretrained_set(pretrained, options->settings[i].name, options->settings[i].text);
    if (status == HASHATTN_OK)
        status = encoder_only ? hashattn_pretrained_save_encoder(pretrained, out)
                              : hashattn_pretrained_save(pretrained, out);
    hashattn_pretrained_free(pretrained);
    return status != HASHATTN_OK ? tool_fail_status(context, status) : describe(options, context, out);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *attention = NULL, *out = NULL;
    int encoder_only = 0;
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "DIR", "directory to write, must not exist yet; required");
    options_add_text(&options, "attention", &attention, "NAME",
                     "mechanism instead of the stored one, for instance yoso-e for a run with yoso");
    options_add_switch(&options, "encoder-only", &encoder_only,
                       "leave out the classifier, or any other output");
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "export needs one operand, the run; got %zu", options.num_operands);
    if (out == NULL)
        return options_fail(&options, "export needs --out, the directory to write");
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = outputs_check_directory(out);
    if (code == EXIT_GOOD)
        code = work(&options, context, attention, encoder_only, out);
    tool_close(context);
    return code;
}

const struct command command_export = {
    .name = "export",
    .operands = "RUN",
    .summary = "Writes an encoder or a text classifier as a checkpoint that the transformers library opens",
    .example =
        "  for i in $(seq 200); do echo \"The cat sat on mat $i. The dog lay on log $i.\"; echo; done > "
        "cats.txt\n"
        "  hashattn tokenizer train cats.txt --vocab-size 300 --out tokens\n"
        "  hashattn data mlm cats.txt --tokenizer tokens --seq-len 64 --out pretraining\n"
        "  hashattn train mlm --data pretraining --attention softmax --steps 4 --batch 8 --out encoder\n"
        "  hashattn export encoder --out bert\n",
    .run = run,
};
