/* `predict`: one JSON line or CSV record per document of files and folders, in order, with its id, its file,
   its label and the probabilities of all labels, or with its number; or the rows that follow a table, as CSV
   with dates. The file of --out appears
   only when it is complete.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/csv_out.h"
#include "cli/shared/output/forecast_out.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/pictures/forecast_picture.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/tool.h"

struct predict {
    hashattn_context *context;
    hashattn_model *model;
    hashattn_model_info info;
    size_t documents; /* or rows of a forecast */
    hashattn_predicted counts;
    hashattn_file *out;
    struct forecast_picture picture; /* path NULL: none */
    int lines, skip_bad, csv;
    bool json, quiet;
    bool no_memory; /* memory ran out for a line */
    int code;       /* of a failure that the callback reported */
};

/* Text that is written in memory and then passed on as a whole. */
struct written {
    FILE *stream;
    char *text;
    size_t size;
};

static bool begin(struct predict *predict, struct written *written)
{
    *written = (struct written){.text = NULL};
    written->stream = open_memstream(&written->text, &written->size);
    predict->no_memory = written->stream == NULL;
    return written->stream != NULL;
}

/* Non-zero to stop. */
static int pass_on(struct predict *predict, struct written *written)
{
    predict->no_memory = ferror(written->stream) != 0;
    predict->no_memory |= fclose(written->stream) != 0;
    hashattn_status status =
        predict->no_memory ? HASHATTN_OK : hashattn_file_write(predict->out, written->text, written->size);
    free(written->text);
    if (status != HASHATTN_OK)
        predict->code = tool_fail_status(predict->context, status);
    return predict->no_memory || status != HASHATTN_OK;
}

/* The labels of a document that has any number of them. */
static void write_labels(struct json_out *json, const struct predict *predict, const float *probabilities)
{
    json_out_array(json, "labels");
    for (size_t c = 0; c < predict->info.num_classes; c++)
        if (probabilities[c] > 0.5F)
            json_out_text(json, NULL, hashattn_model_label(predict->model, c));
    json_out_end_array(json);
}

/* The same as one field, with commas between, as `--multi-label` reads them. A label that holds a comma,
   which only .jsonl can give, looks like two. */
static void write_labels_csv(FILE *stream, const struct predict *predict, const float *probabilities)
{
    bool begun = false;
    fputs(",\"", stream);
    for (size_t c = 0; c < predict->info.num_classes; c++)
        if (probabilities[c] > 0.5F) {
            fputs(begun ? "," : "", stream);
            csv_out_inside(stream, hashattn_model_label(predict->model, c));
            begun = true;
        }
    fputc('"', stream);
}

static void write_json(FILE *stream, const struct predict *predict, const hashattn_prediction *of)
{
    struct json_out json = json_out_to(stream);
    json_out_object(&json, NULL);
    if (of->id != NULL && of->id_is_number)
        json_out_literal(&json, "id", of->id);
    else if (of->id != NULL)
        json_out_text(&json, "id", of->id);
    if (of->file != NULL)
        json_out_text(&json, "file", of->file);
    if (hashattn_model_label(predict->model, 0) == NULL) {
        json_out_number(&json, "score", (double)of->probabilities[0]);
    } else {
        if (predict->info.label_sets)
            write_labels(&json, predict, of->probabilities);
        else
            json_out_text(&json, "label", hashattn_model_label(predict->model, of->best_class));
        json_out_object(&json, "probabilities");
        for (size_t c = 0; c < predict->info.num_classes; c++)
            json_out_number(&json, hashattn_model_label(predict->model, c), (double)of->probabilities[c]);
        json_out_end_object(&json);
    }
    json_out_end_object(&json);
}

/* The header, and a record per document. */
static void write_csv(FILE *stream, const struct predict *predict, const hashattn_prediction *of)
{
    const char *label = hashattn_model_label(predict->model, 0);
    if (of->document == 0) {
        fputs(label == NULL              ? "id,file,score"
              : predict->info.label_sets ? "id,file,labels"
                                         : "id,file,label",
              stream);
        for (size_t c = 0; label != NULL && c < predict->info.num_classes; c++) {
            fputc(',', stream);
            csv_out_field(stream, hashattn_model_label(predict->model, c));
        }
        fputc('\n', stream);
    }
    csv_out_field(stream, of->id == NULL ? "" : of->id);
    fputc(',', stream);
    csv_out_field(stream, of->file == NULL ? "" : of->file);
    if (label != NULL && predict->info.label_sets) {
        write_labels_csv(stream, predict, of->probabilities);
    } else if (label != NULL) {
        fputc(',', stream);
        csv_out_field(stream, hashattn_model_label(predict->model, of->best_class));
    }
    for (size_t c = 0; c < (label == NULL ? 1 : predict->info.num_classes); c++)
        fprintf(stream, ",%.9g", (double)of->probabilities[c]);
    fputc('\n', stream);
}

static int write_line(void *user, const hashattn_prediction *prediction)
{
    struct predict *predict = user;
    struct written written;
    if (!begin(predict, &written))
        return 1;
    if (predict->csv)
        write_csv(written.stream, predict, prediction);
    else
        write_json(written.stream, predict, prediction);
    predict->documents = prediction->document + 1;
    return pass_on(predict, &written);
}

static int tell_bad(void *user, const char *message)
{
    const struct predict *predict = user;
    if (!predict->quiet)
        fprintf(stderr, "hashattn: left out: %s\n", message);
    return 0;
}

static int write_table(void *user, const hashattn_forecast *forecast)
{
    struct predict *predict = user;
    struct written written;
    if (!begin(predict, &written))
        return 1;
    if (predict->json)
        forecast_json(written.stream, forecast);
    else
        forecast_csv(written.stream, forecast);
    if (predict->picture.path != NULL)
        forecast_picture_keep(&predict->picture, forecast);
    predict->documents += forecast->horizon;
    return pass_on(predict, &written);
}

/* Passes on what was predicted before, because the message of a rank ends all of them. */
static int fail(struct predict *predict, hashattn_status status)
{
    hashattn_file_drop(predict->out);
    predict->out = NULL;
    return tool_fail_status(predict->context, status);
}

static int predict_table(const struct options *options, hashattn_context *context, struct predict *predict,
                         uint64_t seed)
{
    hashattn_status status =
        hashattn_model_forecast(predict->model, options->operands[1], NULL, seed, write_table, predict);
    if (predict->no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the rows of the forecast");
    if (predict->code != EXIT_GOOD)
        return predict->code;
    if (status != HASHATTN_OK)
        return fail(predict, status);
    return predict->picture.path == NULL ? EXIT_GOOD : forecast_picture_save(&predict->picture, context);
}

static int predict_file(const struct options *options, hashattn_context *context, struct predict *predict)
{
    hashattn_status status = run_open(context, options->operands[0], &predict->model);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_model_set(predict->model, options->settings[i].name, options->settings[i].text);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    const hashattn_model_info *info = &predict->info;
    hashattn_model_describe(predict->model, &predict->info);
    uint64_t seed = options->common.seed_given ? options->common.seed : info->seed;
    if (info->forecasts && options->num_operands != 2)
        return options_fail(options, "a forecast continues one table; got %zu files",
                            options->num_operands - 1);
    if (predict->picture.path != NULL && !info->forecasts)
        return tool_fail(EXIT_USAGE, "--draw draws forecasts, %s makes none", options->operands[0]);
    if (info->forecasts && (predict->lines || predict->skip_bad))
        return options_fail(options, "%s is for documents, and %s forecasts a table",
                            predict->lines ? "--lines" : "--skip-bad", options->operands[0]);
    if (info->forecasts)
        return predict_table(options, context, predict, seed);
    hashattn_predict_options how;
    hashattn_predict_options_default(&how);
    how.seed = seed;
    how.lines = predict->lines;
    how.skip = predict->skip_bad ? tell_bad : NULL;
    status = hashattn_model_predict(predict->model, options->operands + 1, options->num_operands - 1, &how,
                                    write_line, predict, &predict->counts);
    if (predict->no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the line of document %zu", predict->documents);
    if (predict->code != EXIT_GOOD)
        return predict->code;
    return status == HASHATTN_OK ? EXIT_GOOD : fail(predict, status);
}

/* After everything was written. */
static void say_counts(const struct predict *predict)
{
    const char *many = predict->documents == 1 ? "" : "s";
    tool_say_repairs(predict->context, predict->quiet);
    if (predict->quiet)
        return;
    if (predict->info.forecasts) {
        fprintf(stderr, "%zu row%s\n", predict->documents, many);
        return;
    }
    fprintf(stderr, "%zu document%s, %zu of them cut to %zu tokens", predict->documents, many,
            predict->counts.num_cut, predict->info.max_len);
    if (predict->skip_bad)
        fprintf(stderr, ", %zu bad line%s left out", predict->counts.num_skipped,
                predict->counts.num_skipped == 1 ? "" : "s");
    fputc('\n', stderr);
}

static int work(const struct options *options, hashattn_context *context, struct predict *predict,
                const char *out)
{
    const char *run = options->operands[0];
    int code = outputs_check_inputs("out", out, options->operands + 1, options->num_operands - 1);
    if (code == EXIT_GOOD)
        code = outputs_check_model("out", out, run);
    if (code == EXIT_GOOD && predict->picture.path != NULL)
        code = forecast_picture_check(context, predict->picture.path, run, options->operands[1], out);
    if (code != EXIT_GOOD)
        return code;
    hashattn_status status = hashattn_file_begin(context, out, &predict->out);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    code = predict_file(options, context, predict);
    if (code != EXIT_GOOD) {
        hashattn_file_drop(predict->out);
    } else {
        status = hashattn_file_commit(predict->out);
        code = status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
    }
    if (code == EXIT_GOOD)
        say_counts(predict);
    hashattn_model_free(predict->model);
    forecast_picture_free(&predict->picture);
    return code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *out = "-";
    struct predict predict = {.info = {.struct_size = sizeof predict.info},
                              .counts = {.struct_size = sizeof predict.counts}};
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "FILE", "file to write (default: stdout)");
    options_add_text(
        &options, "draw", &predict.picture.path, "FILE",
        "for a forecast: draw it after the rows before, as PNG if FILE ends in .png, otherwise as SVG");
    options_add_text(&options, "column", &predict.picture.column, "NAME",
                     "the column to draw (default: the last one)");
    options_add_switch(&options, "lines", &predict.lines,
                       "a line of a .txt file, or of standard input, is a document (default: a .txt file is "
                       "one, standard input is JSONL)");
    options_add_switch(&options, "skip-bad", &predict.skip_bad, "leave bad lines out, and count them");
    options_add_switch(
        &options, "csv", &predict.csv,
        "write CSV: id, file, label or labels, and probabilities (default: JSONL, and CSV for a forecast)");
    options_add_ranks(&options);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands < 2)
        return options_fail(&options, "predict needs a run and a file; got %zu operand%s",
                            options.num_operands, options.num_operands == 1 ? "" : "s");
    if (predict.csv && options.common.json)
        return options_fail(&options, "--json and --csv exclude each other");
    if (predict.picture.column != NULL && predict.picture.path == NULL)
        return options_fail(&options, "--column says what --draw draws");
    predict.json = options.common.json;
    predict.quiet = options.common.quiet;
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    hashattn_description is = {.struct_size = sizeof is};
    if (code == EXIT_GOOD) {
        predict.context = context;
        hashattn_context_describe(context, &is);
        code = work(&options, context, &predict, is.rank == 0 ? out : "-"); /* only rank 0 has an output */
    }
    tool_close(context);
    return code;
}

const struct command command_predict = {
    .name = "predict",
    .operands = "RUN FILE...",
    .summary = "Predicts the label of each document of files and folders (- for stdin), or the rows after a "
               "table, as CSV",
    .example =
        "  mkdir mail\n"
        "  for i in $(seq 20); do printf 'spam\\tbuy now\\nham\\tsee you at noon\\n'; done > mail/train.tsv\n"
        "  hashattn train text --data mail --steps 20 --eval-every 10 --out filter\n"
        "  echo '{\"text\": \"see you there\"}' | hashattn predict filter -\n",
    .run = run,
};
