/* `predict`: one JSON line per document of a file, in order, with its label and the probabilities of all
   labels, or with its score; or the rows that follow a table, as CSV with dates. The file of --out appears
   only when it is complete.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/forecast_out.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/tool.h"

struct predict {
    hashattn_model *model;
    size_t num_classes, documents;
    hashattn_file *out;
    bool no_memory; /* memory ran out for a line */
};

static int write_line(void *user, size_t document, size_t best, const float *probabilities)
{
    struct predict *predict = user;
    char *line = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&line, &size);
    if (stream == NULL)
        return predict->no_memory = true;
    struct json_out json = json_out_to(stream);
    json_out_object(&json, NULL);
    if (hashattn_model_label(predict->model, 0) == NULL) {
        json_out_number(&json, "score", (double)probabilities[0]);
    } else {
        json_out_text(&json, "label", hashattn_model_label(predict->model, best));
        json_out_object(&json, "probabilities");
        for (size_t c = 0; c < predict->num_classes; c++)
            json_out_number(&json, hashattn_model_label(predict->model, c), (double)probabilities[c]);
        json_out_end_object(&json);
    }
    json_out_end_object(&json);
    predict->documents = document + 1;
    predict->no_memory = ferror(stream) != 0;
    predict->no_memory |= fclose(stream) != 0;
    bool stop = predict->no_memory || hashattn_file_write(predict->out, line, size) != HASHATTN_OK;
    free(line);
    return stop;
}

static int write_table(void *user, const hashattn_forecast *forecast)
{
    struct predict *predict = user;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return predict->no_memory = true;
    forecast_csv(stream, forecast);
    predict->documents += forecast->horizon;
    predict->no_memory = ferror(stream) != 0;
    predict->no_memory |= fclose(stream) != 0;
    bool stop = predict->no_memory || hashattn_file_write(predict->out, text, size) != HASHATTN_OK;
    free(text);
    return stop;
}

static int predict_table(const struct options *options, hashattn_context *context, struct predict *predict,
                         uint64_t seed)
{
    hashattn_status status =
        hashattn_model_forecast(predict->model, options->operands[1], NULL, seed, write_table, predict);
    if (predict->no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the rows of the forecast");
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        return tool_fail_status(context, status);
    forecast_say_repairs(context, options->common.quiet);
    if (!options->common.quiet)
        fprintf(stderr, "%zu rows\n", predict->documents);
    return EXIT_GOOD;
}

static int predict_file(const struct options *options, hashattn_context *context, struct predict *predict)
{
    hashattn_status status = run_open(context, options->operands[0], &predict->model);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_model_set(predict->model, options->settings[i].name, options->settings[i].text);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(predict->model, &info);
    uint64_t seed = options->common.seed_given ? options->common.seed : info.seed;
    if (info.forecasts)
        return predict_table(options, context, predict, seed);
    predict->num_classes = info.num_classes;
    size_t num_cut = 0;
    status = hashattn_model_predict_file(predict->model, options->operands[1], seed, write_line, predict,
                                         &num_cut);
    if (predict->no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the line of document %zu", predict->documents);
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        return tool_fail_status(context, status);
    if (!options->common.quiet)
        fprintf(stderr, "%zu documents, %zu of them cut to %zu tokens\n", predict->documents, num_cut,
                info.max_len);
    return EXIT_GOOD;
}

static int work(const struct options *options, hashattn_context *context, const char *out)
{
    struct predict predict = {.model = NULL};
    hashattn_status status = hashattn_file_begin(context, out, &predict.out);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    int code = predict_file(options, context, &predict);
    hashattn_model_free(predict.model);
    if (code != EXIT_GOOD) {
        hashattn_file_drop(predict.out);
        return code;
    }
    status = hashattn_file_commit(predict.out);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *out = "-";
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "FILE", "file to write (default: stdout)");
    options_add_ranks(&options);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 2)
        return options_fail(&options, "predict needs two operands, the run and the file; got %zu",
                            options.num_operands);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    hashattn_description is = {.struct_size = sizeof is};
    if (code == EXIT_GOOD) {
        hashattn_context_describe(context, &is);
        code = work(&options, context, is.rank == 0 ? out : "-"); /* only rank 0 has an output */
    }
    tool_close(context);
    return code;
}

const struct command command_predict = {
    .name = "predict",
    .operands = "RUN FILE",
    .summary =
        "Predicts a label or score per document of a file (- for stdin), or the rows after a table, as CSV",
    .example =
        "  mkdir mail\n"
        "  for i in $(seq 20); do printf 'spam\\tbuy now\\nham\\tsee you at noon\\n'; done > mail/train.tsv\n"
        "  hashattn train text --data mail --steps 20 --eval-every 10 --out filter\n"
        "  echo '{\"text\": \"see you there\"}' | hashattn predict filter -\n",
    .run = run,
};
