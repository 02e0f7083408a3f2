/* `eval`: the metrics of a trained run on one split of a data set. SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/arguments.h"
#include "cli/shared/json_out.h"
#include "cli/shared/metrics_out.h"

/* Rows are labels, columns what they were taken for. */
static void confusion_json(struct json_out *json, const hashattn_model *model,
                           const hashattn_evaluation *result)
{
    json_out_array(json, "labels");
    for (size_t i = 0; i < result->num_confused; i++)
        json_out_text(json, NULL, hashattn_model_label(model, i));
    json_out_end_array(json);
    json_out_array(json, "confusion");
    for (size_t i = 0; i < result->num_confused; i++) {
        json_out_array(json, NULL);
        for (size_t k = 0; k < result->num_confused; k++)
            json_out_count(json, NULL, result->confusion[i * result->num_confused + k]);
        json_out_end_array(json);
    }
    json_out_end_array(json);
}

static void report(const char *split, const hashattn_model *model, const hashattn_model_info *info,
                   const hashattn_evaluation *result, bool as_json)
{
    if (!as_json) {
        char metrics[400], unknown[60] = "";
        if (result->num_unknown > 0)
            snprintf(unknown, sizeof unknown, " (%zu targets are <unk>)", result->num_unknown);
        printf("%s: %s, %zu examples, %zu cut, %zu tokens%s, %.0f tokens/s\n", split,
               metrics_words(&result->metrics, "", ", ", true, metrics, sizeof metrics), result->examples,
               result->num_cut, result->tokens, unknown, result->tokens_per_second);
        return;
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", info->task);
    json_out_text(&json, "attention", info->mechanism);
    json_out_text(&json, "precision", info->precision);
    json_out_text(&json, "split", split);
    metrics_json(&json, "", &result->metrics);
    json_out_count(&json, "tokens", result->tokens);
    json_out_count(&json, "num_unknown", result->num_unknown);
    json_out_count(&json, "examples", result->examples);
    json_out_count(&json, "num_cut", result->num_cut);
    json_out_count(&json, "num_params", info->num_params);
    json_out_number(&json, "seconds", result->seconds);
    json_out_number(&json, "tokens_per_second", result->tokens_per_second);
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    if (result->num_confused > 0)
        confusion_json(&json, model, result);
    json_out_end_object(&json);
}

static int evaluate(const struct options *options, hashattn_context *context, const char *data,
                    const char *split)
{
    hashattn_model *model;
    hashattn_status status = hashattn_model_load(context, options->operands[0], &model);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_model_set(model, options->settings[i].name, options->settings[i].text);
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_evaluation result = {.struct_size = sizeof result};
    if (status == HASHATTN_OK) {
        hashattn_model_describe(model, &info);
        status = hashattn_model_evaluate(
            model, data, split, options->common.seed_given ? options->common.seed : info.seed, &result);
    }
    int code = EXIT_GOOD;
    if (status != HASHATTN_OK) {
        code = tool_fail_status(context, status);
    } else {
        report(split, model, &info, &result, options->common.json);
        code = tool_finish();
    }
    hashattn_model_free(model);
    return code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *data = NULL, *split = "test";
    options_begin(&options, self);
    options_add_text(&options, "data", &data, "DIR",
                     "directory of the data set (default: the one recorded in the run)");
    options_add_split(&options, &split, "train, valid or test (default test)");
    options_add_ranks(&options);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "eval needs one operand, the run; got %zu", options.num_operands);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = evaluate(&options, context, data, split);
    tool_close(context);
    return code;
}

const struct command command_eval = {
    .name = "eval",
    .operands = "RUN",
    .summary = "Evaluates a trained run; options of its mechanism may differ from training",
    .example = "  hashattn data needle --out needles --train 2000 --valid 200 --seq-len 128 --marks 8\n"
               "  hashattn train needle --data needles --steps 20 --eval-every 10 --out run\n"
               "  hashattn eval run --split test --num-hashes 64 --json\n",
    .run = run,
};
