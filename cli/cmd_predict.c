/* `predict`: one JSON line per document of a file, in order: its label and the probabilities of all labels.
   With --out the lines go to a file of their own, which appears when it is complete.
   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/json_out.h"

struct predict {
    hashattn_model *model;
    size_t num_classes, documents;
    FILE *stream;
};

static int write_line(void *user, size_t document, size_t best, const float *probabilities)
{
    struct predict *predict = user;
    struct json_out json = json_out_to(predict->stream);
    json_out_object(&json, NULL);
    json_out_text(&json, "label", hashattn_model_label(predict->model, best));
    json_out_object(&json, "probabilities");
    for (size_t c = 0; c < predict->num_classes; c++)
        json_out_number(&json, hashattn_model_label(predict->model, c), (double)probabilities[c]);
    json_out_end_object(&json);
    json_out_end_object(&json);
    predict->documents = document + 1;
    return ferror(predict->stream) != 0;
}

static int predict_file(const struct options *options, hashattn_context *context, struct predict *predict)
{
    hashattn_status status = hashattn_model_load(context, options->operands[0], &predict->model);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_model_set(predict->model, options->settings[i].name, options->settings[i].text);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(predict->model, &info);
    predict->num_classes = info.num_classes;
    size_t num_cut = 0;
    status = hashattn_model_predict_file(predict->model, options->operands[1],
                                         options->common.seed_given ? options->common.seed : info.seed,
                                         write_line, predict, &num_cut);
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        return tool_fail_status(context, status);
    if (!options->common.quiet)
        fprintf(stderr, "%zu documents, %zu of them cut to %zu tokens\n", predict->documents, num_cut,
                info.max_len);
    return EXIT_GOOD;
}

/* The complete file takes its name, or what was written goes away. */
static int settle(FILE *stream, const char *temporary, const char *out, int code)
{
    bool failed = ferror(stream) != 0 || fflush(stream) != 0 || fsync(fileno(stream)) != 0;
    failed |= fclose(stream) != 0;
    if (code == EXIT_GOOD && (failed || rename(temporary, out) != 0))
        code = tool_fail(EXIT_ROOM, "cannot write %s: %s", out, strerror(errno));
    if (code != EXIT_GOOD)
        unlink(temporary);
    return code;
}

static int work(const struct options *options, hashattn_context *context, const char *out)
{
    struct predict predict = {.stream = stdout};
    char temporary[4096];
    bool to_file = strcmp(out, "-") != 0;
    if (to_file) {
        if (snprintf(temporary, sizeof temporary, "%s.tmp", out) >= (int)sizeof temporary)
            return tool_fail(EXIT_USAGE, "--out: the name is %zu bytes long, too long", strlen(out));
        predict.stream = fopen(temporary, "w");
        if (predict.stream == NULL)
            return tool_fail(EXIT_ROOM, "cannot write %s: %s", temporary, strerror(errno));
    }
    int code = predict_file(options, context, &predict);
    hashattn_model_free(predict.model);
    if (to_file)
        return settle(predict.stream, temporary, out, code);
    int finished = tool_finish();
    return code != EXIT_GOOD ? code : finished;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *out = "-";
    options_begin(&options, self);
    options_add(&options, (struct option){"out", OPTION_TEXT, &out, "FILE",
                                          "where the lines go (default: stdout)", 0, 0});
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 2)
        return options_fail(&options, "predict needs two operands, the run and the file; there are %zu",
                            options.num_operands);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&options, context, out);
    hashattn_context_free(context);
    return code;
}

const struct command command_predict = {
    .name = "predict",
    .operands = "RUN FILE",
    .summary = "Predicts every document of a file (- for stdin), one JSON line each",
    .example =
        "  mkdir mail\n"
        "  for i in $(seq 20); do printf 'spam\\tbuy now\\nham\\tsee you at noon\\n'; done > mail/train.tsv\n"
        "  hashattn train text --data mail --steps 20 --eval-every 10 --out filter\n"
        "  echo '{\"text\": \"see you there\"}' | hashattn predict filter -\n",
    .run = run,
};
