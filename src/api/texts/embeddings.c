/* Vectors of documents, from files or from memory. A directory of the sentence-transformers library says how
   they are made (models/sentences).
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/checkpoints.h"
#include "api/floating.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "tasks/documents/document_names.h"
#include "tasks/documents/document_unread.h"
#include "tasks/documents/documents.h"
#include "tasks/documents/given_texts.h"
#include "tasks/documents/token_documents.h"

void hashattn_text_options_default_sized(hashattn_text_options *options, size_t struct_size)
{
    const hashattn_text_options own = {.pooling = "stored", .special_tokens = 1};
    version_fill_options(options, struct_size, &own, sizeof own);
}

/* ---- which vectors ------------------------------------------------------------------------------------- */

struct vectors {
    bool tokens; /* a vector per token */
    enum sentence_pooling pooling;
    bool normalize;
    bool pools_prompt;
};

static hashattn_status find_vectors(struct host *host, const struct sentence_settings *stored,
                                    const hashattn_text_options *options, struct vectors *vectors)
{
    static const char *const names[] = {"stored", "mean", "first", "max", "none"};
    const char *name = options->pooling == NULL ? "" : options->pooling;
    size_t i = 0;
    while (i < 5 && strcmp(names[i], name) != 0)
        i++;
    FAIL_IF(i == 5, host, HASHATTN_INVALID,
            "`pooling` is '%.40s', allowed are stored, mean, first, max, none", name);
    FAIL_IF(i == 0 && stored->refusal[0] != '\0', host, HASHATTN_REFUSED, "%.300s: %s", stored->encoder,
            stored->refusal);
    *vectors = (struct vectors){.tokens = i == 4,
                                .pooling = i == 1   ? SENTENCE_MEAN
                                           : i == 2 ? SENTENCE_FIRST
                                           : i == 3 ? SENTENCE_MAX
                                                    : stored->pooling,
                                .normalize = options->normalize != 0 || (i == 0 && stored->normalize),
                                .pools_prompt = i > 0 || stored->pools_prompt};
    return HASHATTN_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* How files are read, as options of a task. */
struct file_options {
    struct document_options files;
    char text_column[OPTION_TEXT_SIZE];
};
static const char *const text_column[] = {"text", NULL};
static const struct option_row file_rows[] = {
    OPTION_ROW("text_column", OPTION_TEXT, offsetof(struct file_options, text_column), 0, 1,
               OPTION_TEXT_SIZE - 1, text_column,
               "column of .csv and .tsv files, or key of .jsonl files, with the text"),
    DOCUMENT_ROWS(struct file_options),
    {.name = NULL},
};

/* What is not given is as in the training of a run. */
static hashattn_status take_files(struct host *host, const struct run_config *run,
                                  const hashattn_text_options *options, struct file_options *files)
{
    const char *const texts[][2] = {{"text_column", options->text_column},
                                    {"delimiter", options->delimiter},
                                    {"encoding", options->encoding},
                                    {"header", options->no_header ? "false" : NULL}};
    options_preset(file_rows, files);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *name = texts[i][0], *text = texts[i][1];
        const struct option_row *row = run->task != NULL ? option_find(run->task->options, name) : NULL;
        char own[OPTION_TEXT_SIZE];
        if (text == NULL && row == NULL)
            continue;
        if (text == NULL)
            option_text(row, run->task_options, own, sizeof own);
        TRY(option_set(host, file_rows, "documents", files, name, text != NULL ? text : own));
    }
    return HASHATTN_OK;
}

static hashattn_status keep_name(struct host *host, void *context, const struct document_name *name)
{
    return document_names_keep(host, context, name);
}

/* All documents, and the names of those of files. */
struct reading {
    struct dataset documents;
    struct document_names names;
    size_t max_tokens;    /* read of a document */
    size_t prompt_tokens; /* at the start of each */
};

static hashattn_status find_prompt(struct host *host, const struct sentence_settings *stored,
                                   const hashattn_text_options *options, const char **prompt)
{
    FAIL_IF(options->prompt != NULL && options->prompt_name != NULL, host, HASHATTN_INVALID,
            "`prompt` and `prompt_name` exclude each other");
    *prompt = options->prompt;
    return *prompt != NULL ? HASHATTN_OK : sentence_prompt(host, stored, options->prompt_name, prompt);
}

static hashattn_status read_given(struct hashattn_pretrained *pretrained, const struct given_documents *given,
                                  const struct token_rules *rules, struct reading *reading)
{
    struct host *host = &pretrained->context->host;
    struct dataset_builder builder = {.dataset = {.segmented = true}};
    const struct tokenizer *tokenizer;
    hashattn_status status = checkpoint_tokenizer(pretrained, &tokenizer);
    if (status == HASHATTN_OK && pretrained->sentences.lower && !tokenizer_lowers(tokenizer))
        status = host_fail(host, HASHATTN_REFUSED,
                           "%.300s: do_lower_case is true, and its tokenizer keeps capital letters",
                           pretrained->sentences.encoder);
    if (status == HASHATTN_OK)
        status = token_prompt_length(host, tokenizer, rules, &reading->prompt_tokens);
    if (given->paths == NULL && status == HASHATTN_OK)
        status = token_documents_take(host, tokenizer, rules, &given->texts, &builder);
    for (size_t i = 0; i < given->num_paths && status == HASHATTN_OK; i++)
        status = given->paths[i] == NULL
                     ? host_fail(host, HASHATTN_INVALID, "path %zu is NULL", i)
                     : token_documents_read(host, tokenizer, rules, given->paths[i], &builder);
    return dataset_finish(host, &builder, status, &reading->documents);
}

/* What a longer document loses: as in the training of a run, otherwise its end. */
static enum text_cut cut_of(const struct run_config *run)
{
    const struct option_row *row = run->task != NULL ? option_find(run->task->options, "cut") : NULL;
    const int *cut = row != NULL ? (const void *)((const char *)run->task_options + row->offset) : NULL;
    return cut != NULL && *cut == CUT_MIDDLE ? CUT_MIDDLE : CUT_END;
}

static hashattn_status read_documents(struct hashattn_pretrained *pretrained,
                                      const struct given_documents *given,
                                      const hashattn_text_options *options, struct reading *reading)
{
    struct host *host = &pretrained->context->host;
    const struct sentence_settings *stored = &pretrained->sentences;
    size_t positions = (size_t)pretrained->config->max_len;
    bool shorter = !options->truncate && stored->max_len > 0 && stored->max_len < positions;
    struct file_options files;
    struct unread_files unread = {.count = 0};
    struct document_source source = {
        .rules = {.label = "label", .lines = options->lines != 0, .unread = &unread}};
    const char *prompt;
    TRY(take_files(host, &pretrained->origin.run, options, &files));
    source.rules.texts[0] = files.text_column;
    TRY(documents_source(host, &files.files, NULL, &source));
    TRY(find_prompt(host, stored, options, &prompt));
    reading->max_tokens = shorter ? stored->max_len : positions;
    const struct token_rules rules = {.max_tokens = reading->max_tokens,
                                      .truncate = options->truncate || stored->max_len > 0,
                                      .cut = cut_of(&pretrained->origin.run),
                                      .special_tokens = options->special_tokens != 0,
                                      .prompt = prompt,
                                      .files = source.rules,
                                      .name = keep_name,
                                      .context = &reading->names};
    host->note[0] = '\0';
    host->repaired = 0;
    hashattn_status status = read_given(pretrained, given, &rules, reading);
    if (status == HASHATTN_OK)
        unread_note(host, &unread);
    return status;
}

/* ---- computing ----------------------------------------------------------------------------------------- */

/* Passes the rows of a batch on, document by document. */
struct embedding_bridge {
    const struct inference_input *input;
    const struct reading *reading;
    struct vectors vectors;
    hashattn_embedding embedding;
    hashattn_embedding_callback *callback;
    void *user;
    double *sums;  /* (dim) */
    float *vector; /* (dim), or with a vector per token (max_tokens, dim) */
};

static const float *vectors_of(const struct embedding_bridge *bridge, const float *rows, size_t count)
{
    const struct vectors *vectors = &bridge->vectors;
    size_t dim = bridge->embedding.dim, skipped = vectors->pools_prompt ? 0 : bridge->reading->prompt_tokens;
    if (vectors->tokens && !vectors->normalize)
        return rows;
    if (vectors->tokens) {
        memcpy(bridge->vector, rows, count * dim * sizeof *rows);
        for (size_t i = 0; i < count; i++)
            sentence_normalize(bridge->vector + i * dim, dim);
        return bridge->vector;
    }
    skipped = skipped < count ? skipped : count - 1;
    sentence_vector(vectors->pooling, rows + skipped * dim, count - skipped, dim, bridge->sums,
                    bridge->vector);
    if (vectors->normalize)
        sentence_normalize(bridge->vector, dim);
    return bridge->vector;
}

static bool tell_rows(void *user, size_t first, size_t n, const float *rows)
{
    struct embedding_bridge *bridge = user;
    hashattn_embedding *e = &bridge->embedding;
    for (size_t s = first; s < first + n; s++) {
        size_t count = bridge->input->offsets[s + 1] - bridge->input->offsets[s];
        bool tokens = bridge->vectors.tokens;
        const struct named *named = bridge->reading->names.count > 0 ? &bridge->reading->names.list[s] : NULL;
        e->document = s;
        e->first = tokens ? bridge->input->offsets[s] : s;
        e->count = tokens ? count : 1;
        e->vectors = vectors_of(bridge, rows, count);
        if (named != NULL) {
            e->file = document_names_file(named);
            e->id = named->id;
            e->id_is_number = named->id_is_number;
        }
        if (bridge->callback(bridge->user, e) != 0)
            return true;
        rows += count * e->dim;
    }
    return false;
}

static hashattn_status tell_all(struct hashattn_pretrained *pretrained, const struct reading *reading,
                                uint64_t seed, struct embedding_bridge *bridge)
{
    struct host *host = &pretrained->context->host;
    const struct dataset *documents = &reading->documents;
    struct inference inference;
    void *sums = NULL, *vector = NULL;
    size_t dim = (size_t)pretrained->config->dim;
    bool many = bridge->vectors.tokens && bridge->vectors.normalize;
    const struct inference_input input = {documents->count, documents->offsets, documents->ids,
                                          checkpoint_has_segments(pretrained) ? documents->segments : NULL};
    bridge->input = &input;
    bridge->embedding = (hashattn_embedding){
        .struct_size = sizeof bridge->embedding,
        .num_documents = documents->count,
        .num_vectors = bridge->vectors.tokens ? documents->offsets[documents->count] : documents->count,
        .num_cut = documents->num_cut,
        .dim = dim,
        .max_tokens = reading->max_tokens};
    hashattn_status status;
    TRY_DONE(memory_new(host, dim, sizeof(double), "sums of a vector", &sums));
    TRY_DONE(memory_new(host, size_product(dim, many ? reading->max_tokens : 1), sizeof(float), "a vector",
                        &vector));
    bridge->sums = sums;
    bridge->vector = vector;
    TRY_DONE(checkpoint_begin(pretrained, &input, seed, &inference));
    status = inference_rows(host, &inference, &input, tell_rows, bridge);
done:
    memory_free(host, vector);
    memory_free(host, sums);
    return status;
}

static hashattn_status embed(hashattn_pretrained *pretrained, const struct given_documents *given,
                             const hashattn_text_options *options, hashattn_embedding_callback *callback,
                             void *user)
{
    struct host *host = &pretrained->context->host;
    hashattn_text_options own;
    hashattn_text_options_default(&own);
    if (options != NULL)
        TRY(version_take(host, &own, sizeof own, options, first_sizes.text_options, "text options"));
    FAIL_IF(callback == NULL, host, HASHATTN_INVALID, "callback is NULL");
    struct reading reading = {.max_tokens = 0};
    struct embedding_bridge bridge = {.reading = &reading, .callback = callback, .user = user};
    TRY(find_vectors(host, &pretrained->sentences, &own, &bridge.vectors));
    hashattn_status status = read_documents(pretrained, given, &own, &reading);
    if (status == HASHATTN_OK && reading.documents.count > 0)
        status = tell_all(pretrained, &reading, own.seed, &bridge);
    dataset_free(host, &reading.documents);
    document_names_free(host, &reading.names);
    return status;
}

hashattn_status hashattn_pretrained_embed(hashattn_pretrained *pretrained, const char *const *paths,
                                          size_t num_paths, const hashattn_text_options *options,
                                          hashattn_embedding_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(paths == NULL, &pretrained->context->host, HASHATTN_INVALID, "paths is NULL");
    const struct given_documents given = {.paths = paths, .num_paths = num_paths};
    return embed(pretrained, &given, options, callback, user);
}

hashattn_status hashattn_pretrained_embed_texts(hashattn_pretrained *pretrained, const char *const *texts,
                                                size_t num_texts, const hashattn_text_options *options,
                                                hashattn_embedding_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(texts == NULL, &pretrained->context->host, HASHATTN_INVALID, "texts is NULL");
    const struct given_documents given = {.texts = {.texts = texts, .count = num_texts}};
    return embed(pretrained, &given, options, callback, user);
}
