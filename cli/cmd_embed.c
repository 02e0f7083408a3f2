/* `embed`: documents to vectors by a stored model, as one .npy array, or as JSON lines with the ids of the
   documents. With one vector per token, the offsets of the documents are a second array beside the first.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/output/progress.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/tool.h"

struct embed {
    hashattn_context *context;
    const char *out;
    hashattn_npy_writer *writer; /* begun with the first document */
    hashattn_file *lines;        /* instead of the array, for --out NAME.jsonl */
    int code;                    /* of a failure that the callback reported */
    struct progress progress;
    hashattn_embedding last;
    size_t *offsets; /* (documents + 1) beside an array with one vector per token; else NULL */
    int per_token;
};

static int begin(struct embed *embed, const hashattn_embedding *e)
{
    const size_t shape[] = {e->num_vectors, e->dim};
    if (embed->per_token) {
        embed->offsets = calloc(e->num_documents + 1, sizeof *embed->offsets);
        if (embed->offsets == NULL)
            return tool_fail(EXIT_RESOURCE, "no memory for the offsets of %zu documents", e->num_documents);
    }
    hashattn_status status = hashattn_npy_begin(embed->context, embed->out, 2, shape, &embed->writer);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(embed->context, status);
}

/* Nine digits give a float back. */
static void write_vector(struct json_out *json, const char *key, const float *vector, size_t dim)
{
    json_out_array(json, key);
    for (size_t c = 0; c < dim; c++) {
        char number[24];
        snprintf(number, sizeof number, "%.9g", (double)vector[c]);
        json_out_literal(json, NULL, number);
    }
    json_out_end_array(json);
}

static void write_json(FILE *stream, const hashattn_embedding *e, bool per_token)
{
    struct json_out json = json_out_to(stream);
    json_out_object(&json, NULL);
    if (e->id != NULL && e->id_is_number)
        json_out_literal(&json, "id", e->id);
    else if (e->id != NULL)
        json_out_text(&json, "id", e->id);
    if (e->file != NULL)
        json_out_text(&json, "file", e->file);
    if (per_token) {
        json_out_array(&json, "vectors");
        for (size_t i = 0; i < e->count; i++)
            write_vector(&json, NULL, e->vectors + i * e->dim, e->dim);
        json_out_end_array(&json);
    } else {
        write_vector(&json, "vector", e->vectors, e->dim);
    }
    json_out_end_object(&json);
}

static int write_line(struct embed *embed, const hashattn_embedding *e)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for the line of document %zu", e->document);
    write_json(stream, e, embed->per_token);
    bool failed = ferror(stream) != 0;
    failed |= fclose(stream) != 0;
    hashattn_status status = failed ? HASHATTN_OK : hashattn_file_write(embed->lines, text, size);
    free(text);
    if (failed)
        return tool_fail(EXIT_RESOURCE, "no memory for the line of document %zu", e->document);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(embed->context, status);
}

static int take(void *user, const hashattn_embedding *e)
{
    struct embed *embed = user;
    embed->last = *e;
    if (embed->lines != NULL)
        embed->code = write_line(embed, e);
    else if (embed->writer == NULL)
        embed->code = begin(embed, e);
    if (embed->code != EXIT_GOOD)
        return 1;
    if (embed->writer != NULL)
        hashattn_npy_write_part(embed->writer, e->vectors, e->count * e->dim);
    if (embed->offsets != NULL)
        embed->offsets[e->document + 1] = e->first + e->count;
    progress_show(&embed->progress, (int64_t)e->document + 1, (int64_t)e->num_documents, "");
    return 0;
}

/* "E.npy" becomes "E.offsets.npy". */
static hashattn_status write_offsets(const struct embed *embed)
{
    char path[4096];
    size_t size = strlen(embed->out),
           end = size > 4 && strcmp(embed->out + size - 4, ".npy") == 0 ? size - 4 : size;
    snprintf(path, sizeof path, "%.*s.offsets.npy", (int)end, embed->out);
    outputs_own(path);
    return hashattn_npy_write_counts(embed->context, path, embed->offsets, embed->last.num_documents + 1);
}

static void report(const struct options *options, const struct embed *embed,
                   const hashattn_pretrained_info *info)
{
    const hashattn_embedding *e = &embed->last;
    if (options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_text(&json, "type", info->type);
        json_out_text(&json, "attention", info->mechanism);
        json_out_count(&json, "documents", e->num_documents);
        json_out_count(&json, "vectors", e->num_vectors);
        json_out_count(&json, "dim", e->dim);
        json_out_count(&json, "cut", e->num_cut);
        json_out_count(&json, "max_tokens", e->max_tokens);
        json_out_end_object(&json);
    } else if (!options->common.quiet) {
        tool_line(stderr, "%zu document%s, %zu of them cut to %zu tokens%s; %zu vector%s of %zu in %s",
                  e->num_documents, e->num_documents == 1 ? "" : "s", e->num_cut, e->max_tokens,
                  e->num_cut > 0 && e->max_tokens < info->max_len ? " (--truncate keeps more)" : "",
                  e->num_vectors, e->num_vectors == 1 ? "" : "s", e->dim, embed->out);
    }
}

/* Completes the output. */
static hashattn_status finish(struct embed *embed)
{
    hashattn_status status =
        embed->lines != NULL ? hashattn_file_commit(embed->lines) : hashattn_npy_commit(embed->writer);
    embed->lines = NULL;
    embed->writer = NULL;
    return status == HASHATTN_OK && embed->offsets != NULL ? write_offsets(embed) : status;
}

static int embed_files(const struct options *options, hashattn_pretrained *pretrained,
                       const hashattn_text_options *text, struct embed *embed)
{
    hashattn_pretrained_info info = {.struct_size = sizeof info};
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_pretrained_set(pretrained, options->settings[i].name, options->settings[i].text);
    hashattn_pretrained_describe(pretrained, &info);
    embed->per_token = strcmp(text->pooling, "none") == 0;
    embed->progress = progress_begin(options->common.quiet);
    if (status == HASHATTN_OK)
        status = hashattn_pretrained_embed(pretrained, options->operands + 1, options->num_operands - 1, text,
                                           take, embed);
    progress_end(&embed->progress);
    if (embed->code != EXIT_GOOD)
        return embed->code;
    if (status == HASHATTN_OK)
        tool_say_repairs(embed->context, options->common.quiet);
    if (status == HASHATTN_OK && embed->last.num_documents == 0)
        return tool_fail(EXIT_FILE, "the files have no documents");
    if (status == HASHATTN_OK)
        status = finish(embed);
    if (status != HASHATTN_OK)
        return tool_fail_status(embed->context, status);
    report(options, embed, &info);
    return EXIT_GOOD;
}

/* Opens the output, if it is lines, and the model, and embeds. */
static int work(const struct options *options, const char *attention, hashattn_text_options *text,
                struct embed *embed)
{
    hashattn_pretrained_info info = {.struct_size = sizeof info};
    const char *ending = strrchr(embed->out, '.');
    hashattn_pretrained *pretrained = NULL;
    hashattn_status status = HASHATTN_OK;
    int code = outputs_check_inputs("out", embed->out, options->operands + 1, options->num_operands - 1);
    if (code == EXIT_GOOD)
        code = outputs_check_model("out", embed->out, options->operands[0]);
    if (code == EXIT_GOOD)
        code = outputs_check_file(embed->out);
    if (code != EXIT_GOOD)
        return code;
    if (ending != NULL && strcmp(ending, ".jsonl") == 0)
        status = hashattn_file_begin(embed->context, embed->out, &embed->lines);
    if (status == HASHATTN_OK)
        status = hashattn_pretrained_load(embed->context, options->operands[0], attention, &pretrained);
    if (status == HASHATTN_OK)
        hashattn_pretrained_describe(pretrained, &info);
    text->seed = options->common.seed_given ? options->common.seed : info.seed;
    code = status != HASHATTN_OK ? tool_fail_status(embed->context, status)
                                 : embed_files(options, pretrained, text, embed);
    hashattn_npy_drop(embed->writer);
    hashattn_file_drop(embed->lines);
    hashattn_pretrained_free(pretrained);
    free(embed->offsets);
    return code;
}

static void add_text_options(struct options *options, hashattn_text_options *text)
{
    options_add_text(
        options, "pooling", &text->pooling, "NAME",
        "one vector per document: mean of its tokens, first token, max of each column; none: one "
        "per token, and their offsets in FILE.offsets.npy; stored: as modules.json of a "
        "sentence-transformers directory says, otherwise mean (default stored)");
    options_add_switch(options, "normalize", &text->normalize,
                       "give vectors unit length, as stored ones have if the directory says so");
    options_add_text(options, "prompt-name", &text->prompt_name, "NAME",
                     "write this prompt of config_sentence_transformers.json before every document (default: "
                     "the one that it names as default)");
    options_add_text(options, "prompt", &text->prompt, "TEXT", "write this text before every document");
    options_add_switch(options, "truncate", &text->truncate,
                       "cut documents at the model's positions (default: at max_seq_length of a "
                       "sentence-transformers directory; elsewhere longer documents are refused)");
    options_add_switch(options, "lines", &text->lines,
                       "a line of a .txt file, or of standard input, is a document (default: a .txt file is "
                       "one, standard input is JSONL)");
    options_add_text(options, "text-column", &text->text_column, "NAME",
                     "column of .csv and .tsv files, or key of .jsonl files, with the text; this and the "
                     "next three are those of a run's training unless they are given (default text)");
    options_add_text(options, "delimiter", &text->delimiter, "TEXT",
                     "the character between columns, or tab (default auto)");
    options_add_text(options, "encoding", &text->encoding, "NAME",
                     "utf-8, latin-1 or windows-1252 (default utf-8)");
    options_add_switch(options, "no-header", &text->no_header,
                       "the first line of a .csv or .tsv file is a document; columns are numbers, from 1");
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct embed embed = {.out = NULL};
    hashattn_text_options text;
    hashattn_text_options_default(&text);
    const char *attention = NULL;
    int plain = 0;
    options_begin(&options, self);
    options_add_text(
        &options, "out", &embed.out, "FILE",
        "array to write, (vectors, dim) float32 (- for stdout), or with the ending .jsonl a line "
        "per document, with its id, file and vector; required");
    add_text_options(&options, &text);
    options_add_switch(&options, "no-special-tokens", &plain,
                       "leave out the tokenizer's start and end tokens");
    options_add_text(&options, "attention", &attention, "NAME",
                     "mechanism instead of the stored one, for instance lha, or a plan of heads (see train)");
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands < 2)
        return options_fail(&options, "embed needs a checkpoint's directory and at least one file; got %zu",
                            options.num_operands);
    if (embed.out == NULL)
        return options_fail(&options, "embed needs --out, the array or .jsonl file to write");
    text.special_tokens = !plain;
    code = tool_open(&options.common, &embed.context);
    if (code == EXIT_GOOD)
        code = work(&options, attention, &text, &embed);
    tool_close(embed.context);
    return code == EXIT_GOOD ? tool_finish() : code;
}

const struct command command_embed = {
    .name = "embed",
    .operands = "DIR FILE...",
    .summary = "Computes vectors of documents of files and folders (- for stdin) with a run, or a stored "
               "checkpoint or sentence-transformers directory",
    .example =
        "  mkdir mail\n"
        "  for i in $(seq 20); do printf 'spam\\tbuy now\\nham\\tsee you at noon\\n'; done > mail/train.tsv\n"
        "  hashattn train text --data mail --steps 20 --eval-every 10 --out filter\n"
        "  echo '{\"text\": \"see you there\"}' > new.jsonl\n"
        "  hashattn embed filter new.jsonl --out vectors.npy\n",
    .run = run,
};
