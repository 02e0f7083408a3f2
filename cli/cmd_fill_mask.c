/* `fill-mask`: the most probable tokens for the masks of a text, by a stored model.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/tool.h"

struct fill {
    int as_json;
};

static int show(void *user, const hashattn_guess *guess)
{
    struct fill *fill = user;
    if (fill->as_json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_count(&json, "mask", guess->mask);
        json_out_count(&json, "rank", guess->rank);
        json_out_count(&json, "id", guess->id);
        json_out_text(&json, "token", guess->token);
        json_out_number(&json, "probability", guess->probability);
        json_out_end_object(&json);
        return ferror(stdout) != 0;
    }
    if (guess->rank == 0 && guess->mask > 0)
        printf("\n");
    tool_line(stdout, "%8.4f  %s", guess->probability, guess->token);
    return ferror(stdout) != 0;
}

static int work(const struct options *options, hashattn_context *context, const char *attention, size_t top)
{
    hashattn_pretrained *pretrained;
    struct fill fill = {.as_json = options->common.json};
    hashattn_pretrained_info info = {.struct_size = sizeof info};
    hashattn_status status = hashattn_pretrained_load(context, options->operands[0], attention, &pretrained);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_pretrained_set(pretrained, options->settings[i].name, options->settings[i].text);
    if (status == HASHATTN_OK) {
        hashattn_pretrained_describe(pretrained, &info);
        uint64_t seed = options->common.seed_given ? options->common.seed : info.seed;
        status = hashattn_pretrained_fill_mask(pretrained, options->operands[1], top, seed, show, &fill);
    }
    hashattn_pretrained_free(pretrained);
    if (status != HASHATTN_OK && !ferror(stdout))
        return tool_fail_status(context, status);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *attention = NULL;
    size_t top = 5;
    options_begin(&options, self);
    options_add_count(&options, "top", &top, "K", "guesses for each mask (default 5)", 1, 1000);
    options_add_text(&options, "attention", &attention, "NAME",
                     "mechanism instead of the stored one, for instance lha, or a plan of heads (see train)");
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 2)
        return options_fail(&options,
                            "fill-mask needs two operands, the checkpoint's directory and the text; got %zu",
                            options.num_operands);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&options, context, attention, top);
    tool_close(context);
    return code;
}

const struct command command_fill_mask = {
    .name = "fill-mask",
    .operands = "DIR TEXT",
    .summary = "Guesses the masked tokens of a text with a run or a stored checkpoint",
    .example =
        "  for i in $(seq 200); do echo \"The cat sat on mat $i. The dog lay on log $i.\"; echo; done > "
        "cats.txt\n"
        "  hashattn tokenizer train cats.txt --vocab-size 300 --out tokens\n"
        "  hashattn data mlm cats.txt --tokenizer tokens --seq-len 64 --out pretraining\n"
        "  hashattn train mlm --data pretraining --steps 20 --batch 8 --out encoder\n"
        "  hashattn fill-mask encoder \"The cat <mask> on mat 7.\" --top 3\n",
    .run = run,
};
