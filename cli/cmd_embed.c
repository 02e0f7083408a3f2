/* `embed`: documents to vectors by a stored model, as one .npy array. With one vector per token, the
   offsets of the documents are a second array beside it.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/output/progress.h"
#include "cli/shared/tool/outputs.h"

struct embed {
    hashattn_context *context;
    const char *out;
    hashattn_npy_writer *writer; /* begun with the first document */
    int code;                    /* of a failure that the callback reported */
    struct progress progress;
    hashattn_embedding last;
    size_t *offsets; /* (documents + 1), with one vector per token; else NULL */
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

static int take(void *user, const hashattn_embedding *e)
{
    struct embed *embed = user;
    embed->last = *e;
    if (embed->writer == NULL)
        embed->code = begin(embed, e);
    if (embed->code != EXIT_GOOD)
        return 1;
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
        json_out_end_object(&json);
    } else if (!options->common.quiet) {
        fprintf(stderr, "%zu document%s, %zu of them cut to %zu tokens; %zu vector%s of %zu in %s\n",
                e->num_documents, e->num_documents == 1 ? "" : "s", e->num_cut, info->max_len, e->num_vectors,
                e->num_vectors == 1 ? "" : "s", e->dim, embed->out);
    }
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
    if (status == HASHATTN_OK && embed->writer == NULL)
        return tool_fail(EXIT_FILE, "the files have no documents");
    if (status == HASHATTN_OK) {
        status = hashattn_npy_commit(embed->writer);
        embed->writer = NULL;
    }
    if (status == HASHATTN_OK && embed->per_token)
        status = write_offsets(embed);
    if (status != HASHATTN_OK)
        return tool_fail_status(embed->context, status);
    report(options, embed, &info);
    return EXIT_GOOD;
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
    options_add_text(&options, "out", &embed.out, "FILE", "array to write, (vectors, dim) float32; required");
    options_add_text(
        &options, "pooling", &text.pooling, "NAME",
        "one vector per document: mean of its tokens or first token; none: one per token, and their "
        "offsets in FILE.offsets.npy (default mean)");
    options_add_switch(&options, "no-special-tokens", &plain,
                       "leave out the tokenizer's start and end tokens");
    options_add_switch(&options, "truncate", &text.truncate,
                       "cut documents that are longer than the model's positions, instead of refusing them");
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
        return options_fail(&options, "embed needs --out, the array to write");
    text.special_tokens = !plain;
    text.seed = options.common.seed;
    hashattn_pretrained *pretrained = NULL;
    code = tool_open(&options.common, &embed.context);
    if (code == EXIT_GOOD)
        code = outputs_check_file(embed.out);
    if (code == EXIT_GOOD) {
        hashattn_status status =
            hashattn_pretrained_load(embed.context, options.operands[0], attention, &pretrained);
        code = status != HASHATTN_OK ? tool_fail_status(embed.context, status)
                                     : embed_files(&options, pretrained, &text, &embed);
        hashattn_npy_drop(embed.writer);
        hashattn_pretrained_free(pretrained);
    }
    free(embed.offsets);
    tool_close(embed.context);
    return code == EXIT_GOOD ? tool_finish() : code;
}

const struct command command_embed = {
    .name = "embed",
    .operands = "DIR FILE...",
    .summary = "Computes vectors of documents with a run, or a stored checkpoint (yoso, bert, roberta)",
    .example =
        "  mkdir mail\n"
        "  for i in $(seq 20); do printf 'spam\\tbuy now\\nham\\tsee you at noon\\n'; done > mail/train.tsv\n"
        "  hashattn train text --data mail --steps 20 --eval-every 10 --out filter\n"
        "  echo '{\"text\": \"see you there\"}' > new.jsonl\n"
        "  hashattn embed filter new.jsonl --out vectors.npy\n",
    .run = run,
};
