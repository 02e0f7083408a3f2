/* `eval`: the metrics of a trained run on one split of a data set, or their differences from those of another
   run.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/arguments.h"
#include "cli/shared/output/classes_out.h"
#include "cli/shared/output/forecast_out.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/output/metrics_out.h"
#include "cli/shared/pictures/forecast_picture.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/tool.h"

static void report(const char *split, const hashattn_model *model, const hashattn_model_info *info,
                   const hashattn_evaluation *result, const struct forecast_errors *errors, bool as_json)
{
    if (!as_json) {
        char metrics[400], unknown[60] = "";
        if (result->num_unknown > 0)
            snprintf(unknown, sizeof unknown, " (%zu targets are <unk>)", result->num_unknown);
        printf("%s: %s, %zu example%s, %zu cut, %zu tokens%s, %.0f tokens/s\n", split,
               metrics_words(&result->metrics, "", ", ", true, metrics, sizeof metrics), result->examples,
               result->examples == 1 ? "" : "s", result->num_cut, result->tokens, unknown,
               result->tokens_per_second);
        if (info->positive != NULL && hashattn_metric_find(&result->metrics, "f1") != NULL)
            tool_line(stdout, "f1 is that of '%s'; --positive LABEL chooses another label", info->positive);
        else if (info->label_sets)
            printf("f1 is that of all labels together; --positive LABEL chooses one\n");
        classes_words(model, result);
        if (errors->count > 0)
            forecast_errors_words(errors);
        return;
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", info->task);
    json_out_text(&json, "attention", info->mechanism);
    json_out_text(&json, "precision", info->precision);
    json_out_text(&json, "parameters", info->last_step < 0 ? "best" : "last");
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
    if (info->positive != NULL)
        json_out_text(&json, "positive", info->positive);
    classes_json(&json, model, result);
    if (errors->count > 0)
        forecast_errors_json(errors, &json);
    json_out_end_object(&json);
}

/* The operands and the options of `eval`. */
struct wanted {
    const char *run, *against; /* against: the other run, or NULL */
    const char *data, *split;
    const char *positive;      /* the label of F1, or NULL */
    const char *draw, *column; /* the picture of a forecast, or NULL; its column, or NULL */
};

/* What is made of the windows of a forecast. */
struct windows_seen {
    const struct wanted *wanted;
    hashattn_evaluation result;
    struct forecast_errors errors;
    struct forecast_picture picture;
};

static int see_window(void *user, const hashattn_forecast *forecast)
{
    struct windows_seen *seen = user;
    if (forecast->window == 0)
        seen->result = *forecast->evaluation;
    if (seen->wanted->draw != NULL)
        forecast_picture_keep(&seen->picture, forecast);
    return forecast_errors_add(&seen->errors, forecast);
}

static void report_differences(const struct wanted *wanted, const hashattn_model_info *info,
                               const hashattn_comparison *found, bool as_json)
{
    if (!as_json) {
        tool_line(stdout, "%s: %s against %s, %zu examples", wanted->split, wanted->run, wanted->against,
                  found->examples);
        printf("%-26s %10s %10s %12s %12s %8s %8s\n", "metric", "run", "against", "difference", "std. error",
               "z", "p");
        for (size_t i = 0; i < found->count; i++) {
            const hashattn_difference *of = &found->list[i];
            tool_line(stdout, "%-26s %10.4f %10.4f %+12.4f %12.4f %+8.2f %8.3g", of->name, of->value,
                      of->other, of->difference, of->standard_error, of->z, of->p);
        }
        printf("z is positive if the run is better; p, one-tail: how likely such a z is by chance\n");
        if (info->forecasts)
            printf("windows overlap, so examples depend on each other: the errors are too small, z is too "
                   "large\n");
        return;
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", info->task);
    json_out_text(&json, "run", wanted->run);
    json_out_text(&json, "against", wanted->against);
    json_out_text(&json, "split", wanted->split);
    json_out_count(&json, "examples", found->examples);
    json_out_object(&json, "metrics");
    for (size_t i = 0; i < found->count; i++) {
        const hashattn_difference *of = &found->list[i];
        json_out_object(&json, of->name);
        json_out_number(&json, "run", of->value);
        json_out_number(&json, "against", of->other);
        json_out_number(&json, "difference", of->difference);
        json_out_number(&json, "standard_error", of->standard_error);
        json_out_number(&json, "z", of->z);
        json_out_number(&json, "p", of->p);
        json_out_flag(&json, "more_is_better", of->more_is_better);
        json_out_end_object(&json);
    }
    json_out_end_object(&json);
    json_out_end_object(&json);
}

/* The metrics of the model; of a forecast also errors in the units of the file, and a picture, if one is
   wanted. Returns an exit code. */
static int evaluate_alone(const struct common *common, hashattn_context *context, const struct wanted *wanted,
                          hashattn_model *model, const hashattn_model_info *info, uint64_t seed)
{
    struct windows_seen seen = {.wanted = wanted,
                                .picture = {.path = wanted->draw, .column = wanted->column},
                                .result.struct_size = sizeof seen.result};
    int code = wanted->draw == NULL
                   ? EXIT_GOOD
                   : forecast_picture_check(context, wanted->draw, wanted->run,
                                            wanted->data == NULL ? info->data : wanted->data, NULL);
    if (code != EXIT_GOOD)
        return code;
    hashattn_status status =
        info->forecasts || wanted->draw != NULL
            ? hashattn_model_forecast(model, wanted->data, wanted->split, seed, see_window, &seen)
            : hashattn_model_evaluate(model, wanted->data, wanted->split, seed, &seen.result);
    code = seen.errors.no_memory   ? tool_fail(EXIT_RESOURCE, "no memory for the errors of columns")
           : status != HASHATTN_OK ? tool_fail_status(context, status)
                                   : EXIT_GOOD;
    if (code == EXIT_GOOD && wanted->draw != NULL)
        code = forecast_picture_save(&seen.picture, context);
    if (code == EXIT_GOOD)
        report(wanted->split, model, info, &seen.result, &seen.errors, common->json);
    forecast_picture_free(&seen.picture);
    forecast_errors_free(&seen.errors);
    return code;
}

/* Evaluates the model against the other run. Returns an exit code. */
static int evaluate_both(const struct common *common, hashattn_context *context, const struct wanted *wanted,
                         hashattn_model *model, const hashattn_model_info *info, uint64_t seed)
{
    hashattn_comparison found = {.struct_size = sizeof found};
    hashattn_model *other = NULL;
    hashattn_status status = run_open(context, wanted->against, &other);
    if (status == HASHATTN_OK && wanted->positive != NULL)
        status = hashattn_model_positive(other, wanted->positive);
    if (status == HASHATTN_OK)
        status = hashattn_model_compare(model, other, wanted->data, wanted->split, seed, &found);
    if (status == HASHATTN_OK)
        report_differences(wanted, info, &found, common->json);
    hashattn_model_free(other);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

static int load_and_evaluate(const struct options *options, hashattn_context *context,
                             const struct wanted *wanted)
{
    const struct common *common = &options->common;
    hashattn_model *model;
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_status status = run_open(context, wanted->run, &model);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_model_set(model, options->settings[i].name, options->settings[i].text);
    if (status == HASHATTN_OK && wanted->positive != NULL)
        status = hashattn_model_positive(model, wanted->positive);
    if (status != HASHATTN_OK) {
        hashattn_model_free(model);
        return tool_fail_status(context, status);
    }
    hashattn_model_describe(model, &info);
    uint64_t seed = common->seed_given ? common->seed : info.seed;
    int code = wanted->against == NULL ? evaluate_alone(common, context, wanted, model, &info, seed)
                                       : evaluate_both(common, context, wanted, model, &info, seed);
    hashattn_model_free(model);
    if (code == EXIT_GOOD)
        tool_say_repairs(context, common->quiet);
    return code == EXIT_GOOD ? tool_finish() : code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct wanted wanted = {.split = "test"};
    options_begin(&options, self);
    options_add_text(&options, "data", &wanted.data, "DIR",
                     "directory of the data set, or a file (default: the one recorded in the run)");
    options_add_split(&options, &wanted.split, "train, valid or test (default test)");
    options_add_text(
        &options, "positive", &wanted.positive, "LABEL",
        "the label whose F1 is reported as f1 (default: the second of two; with several labels per "
        "document, all together)");
    options_add_text(
        &options, "against", &wanted.against, "RUN",
        "another run of the task: reports the difference of each metric on the same examples, its "
        "standard error and a one-tail test; options of mechanisms are those of the first run");
    options_add_text(
        &options, "draw", &wanted.draw, "FILE",
        "for a forecast: draw truth and forecast of the last window, as PNG if FILE ends in .png, "
        "otherwise as SVG");
    options_add_text(&options, "column", &wanted.column, "NAME",
                     "the column to draw (default: the last one)");
    options_add_ranks(&options);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "eval needs one operand, the run; got %zu", options.num_operands);
    if (wanted.column != NULL && wanted.draw == NULL)
        return options_fail(&options, "--column says what --draw draws");
    if (wanted.draw != NULL && wanted.against != NULL)
        return options_fail(&options, "--draw applies to one run, --against compares two");
    wanted.run = options.operands[0];
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = load_and_evaluate(&options, context, &wanted);
    tool_close(context);
    return code;
}

const struct command command_eval = {
    .name = "eval",
    .operands = "RUN",
    .summary = "Evaluates a trained run; options of its mechanism may differ from training",
    .example = "  hashattn data needle --out needles --train 2000 --valid 200 --seq-len 128 --marks 8\n"
               "  hashattn train needle --data needles --steps 20 --eval-every 10 --out run\n"
               "  hashattn eval run --split test --num-hashes 64 --json\n"
               "  hashattn eval run --num-hashes 64 --against run\n",
    .run = run,
};
