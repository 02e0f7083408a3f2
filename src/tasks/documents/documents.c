/* Two passes over the training file: labels and words, then ids. Cost: a text is read up to max_len tokens in
   the second, and to its end if its middle is cut; memory is two bytes a token.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/documents.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/documents/document_unread.h"
#include "tasks/documents/given_texts.h"

const char *const document_endings[] = {".jsonl", ".tsv", ".csv", "/", NULL};
const char *const document_delimiter[] = {"auto", NULL};

hashattn_status documents_source(struct host *host, const struct document_options *options,
                                 const struct task_facts *facts, struct document_source *source)
{
    const char *text = options->delimiter;
    struct document_rules *rules = &source->rules;
    rules->encoding = (enum text_encoding)options->encoding;
    rules->no_header = !options->header;
    rules->recorded = facts != NULL;
    rules->first_reading = facts != NULL && facts->first_reading;
    rules->delimiter = strcmp(text, "auto") == 0                              ? '\0'
                       : strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0 ? '\t'
                                                                              : text[0];
    bool word = rules->delimiter == '\0' || rules->delimiter == '\t';
    FAIL_IF((!word && text[1] != '\0') || strchr("\"\r\n", text[0]) != NULL, host, HASHATTN_INVALID,
            "`delimiter` is '%s', a character such as ';', tab or auto is needed", text);
    return HASHATTN_OK;
}

/* ---- labels and vocabulary ----------------------------------------------------------------------------- */

/* The first pass. */
struct learning {
    bool pairs;
    struct label_pass labels;
    const struct token_choice *choice;
    struct word_counts counts;
};

static hashattn_status learn_from(struct host *host, void *context, const struct document *document)
{
    struct learning *learning = context;
    for (int i = 0; i < (learning->pairs ? 2 : 1); i++)
        TRY(tokens_count(host, learning->choice, document->texts[i], &learning->counts));
    return label_pass_add(host, &learning->labels, document);
}

hashattn_status documents_facts(struct host *host, const struct document_source *source,
                                const char *directory, const struct token_choice *choice, size_t max_len,
                                struct task_facts *facts)
{
    char path[FILE_PATH];
    void *read;
    struct learning learning = {
        .pairs = source->rules.pairs, .labels.kind = source->labels, .choice = choice};
    struct document_rules rules = source->rules;
    *facts = (struct task_facts){.max_len = max_len > 0 ? max_len : tokens_usual_len(choice),
                                 .pairs = source->rules.pairs && !source->joined};
    hashattn_status status;
    rules.label_needed = true;
    TRY_DONE(tokens_check(host, choice));
    TRY_DONE(split_find_train(host, source->files, directory, path, sizeof path));
    TRY_DONE(memory_new_zeroed(host, DOCUMENT_COLUMNS, 1, "names of columns", &read));
    facts->read = rules.columns = read;
    TRY_DONE(document_file_read(host, path, FILE_FOUND, &rules, learn_from, &learning));
    TRY_DONE(label_pass_end(host, &learning.labels, path, source->rules.label, facts));
    if (source->joined)
        TRY_DONE(tokens_pair_segments(host, choice, facts));
    status = tokens_learn(host, choice, &learning.counts, facts); /* last, because it takes the tokenizer */
done:
    word_counts_free(host, &learning.counts);
    label_pass_free(host, &learning.labels);
    if (status != HASHATTN_OK)
        task_facts_free(host, facts);
    return status;
}

/* ---- documents ----------------------------------------------------------------------------------------- */

struct reading {
    const struct document_rules *rules;
    enum label_kind labels;
    const struct task_facts *facts;
    struct text_encoder encoder;
    struct dataset_builder *builder;
    size_t labelled, known; /* documents with a label; and with one of the facts */
};

/* Tells the stream, whose parts hold no names, which document comes next. */
static hashattn_status name_document(struct host *host, const struct dataset_stream *stream,
                                     const struct document *document)
{
    const struct document_name name = {.file = document->file,
                                       .id = document->id.bytes,
                                       .id_size = document->id.size,
                                       .id_is_number = document->id_is_number};
    bool named = document->file != NULL && stream != NULL && stream->name != NULL;
    return named ? stream->name(host, stream->context, &name) : HASHATTN_OK;
}

static hashattn_status push_document(struct host *host, void *context, const struct document *document)
{
    struct reading *reading = context;
    const struct task_facts *facts = reading->facts;
    size_t row;
    TRY(dataset_reserve(host, reading->builder, facts->max_len * (facts->pairs ? 2 : 1), &row));
    TRY(labels_place(host, reading->labels, facts, document, reading->rules->label_needed, reading->builder));
    const struct dataset *dataset = &reading->builder->dataset;
    reading->labelled += document->label.size > 0;
    reading->known += dataset->targets[0].weights[dataset->count] > 0;
    struct token_row tokens = {.ids = dataset->ids + row,
                               .segments = dataset->segmented ? dataset->segments + row : NULL};
    bool joined = reading->rules->pairs && !facts->pairs;
    TRY(joined ? text_encoder_write_pair(host, &reading->encoder, document->texts, &tokens)
               : text_encoder_write(host, &reading->encoder, document->texts[0], &tokens));
    size_t first = tokens.count;
    if (facts->pairs) {
        tokens.ids += first;
        tokens.segments = dataset->segmented ? tokens.segments + first : NULL;
        TRY(text_encoder_write(host, &reading->encoder, document->texts[1], &tokens));
    }
    TRY(name_document(host, reading->builder->stream, document));
    if (facts->pairs)
        dataset_push_pair(reading->builder, first, tokens.count, tokens.cut);
    else
        dataset_push(reading->builder, first, tokens.cut);
    return HASHATTN_OK;
}

/* What a split's reader needs. */
struct labelled {
    struct document_rules rules;
    enum label_kind labels;
    enum text_cut cut;
    const struct task_facts *facts;
};

/* A .tsv file without a header whose first column has none of the run's labels may have an unknown header. */
static void note_columns(struct host *host, const struct reading *reading, const char *path)
{
    const char *columns = reading->rules->columns;
    bool bare = columns != NULL && strstr(columns, DOCUMENT_NO_HEADER) != NULL;
    if (bare && reading->labelled > 0 && reading->known == 0 && host->note[0] == '\0')
        host_note(host, 1, "%.200s was read as %s; none of its labels is one of the run's", path, columns);
}

static hashattn_status open_reading(struct host *host, const struct labelled *labelled,
                                    struct dataset_builder *builder, struct reading *reading)
{
    *reading = (struct reading){
        .rules = &labelled->rules, .labels = labelled->labels, .facts = labelled->facts, .builder = builder};
    hashattn_status status = text_encoder_open(host, labelled->facts, &reading->encoder);
    reading->encoder.cut = labelled->cut;
    return status;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    const struct labelled *labelled = context;
    struct reading reading;
    hashattn_status status = open_reading(host, labelled, builder, &reading);
    if (status == HASHATTN_OK)
        status = document_file_read(host, path, dataset_source(builder), &labelled->rules, push_document,
                                    &reading);
    text_encoder_close(&reading.encoder);
    if (status == HASHATTN_OK)
        note_columns(host, &reading, path);
    return status;
}

static struct dataset shape_of(const struct document_source *source, const struct task_facts *facts)
{
    struct dataset shape = {.pairs = facts->pairs, .segmented = facts->num_segments > 0};
    labels_shape(source->labels, facts, &shape);
    return shape;
}

hashattn_status documents_load(struct host *host, const struct document_source *source,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset)
{
    const struct dataset shape = shape_of(source, facts);
    struct labelled labelled = {source->rules, source->labels, source->cut, facts};
    labelled.rules.label_needed = true;
    return split_load(host, source->files, facts, directory, split, seed, &shape, read_file, &labelled,
                      dataset);
}

hashattn_status documents_stream(struct host *host, const struct document_source *source,
                                 const struct task_facts *facts, const char *path,
                                 const struct dataset_stream *stream)
{
    struct dataset_builder builder = {.dataset = shape_of(source, facts), .stream = stream};
    struct labelled labelled = {source->rules, source->labels, source->cut, facts};
    char columns[DOCUMENT_COLUMNS] = "";
    labelled.rules.columns = columns;
    labelled.rules.lines = stream->lines;
    labelled.rules.unread = stream->unread;
    labelled.rules.skip = stream->skip;
    labelled.rules.skip_context = stream->context;
    hashattn_status read = read_file(host, &labelled, path, &builder);
    bool nothing = read == HASHATTN_OK && builder.streamed == 0 && builder.dataset.count == 0;
    hashattn_status status = dataset_stream_end(host, &builder, path, "documents", read);
    return nothing && status != HASHATTN_OK ? unread_explain(host, stream->unread, status) : status;
}

hashattn_status documents_stream_texts(struct host *host, const struct document_source *source,
                                       const struct task_facts *facts, const struct given_texts *texts,
                                       const struct dataset_stream *stream)
{
    struct dataset_builder builder = {.dataset = shape_of(source, facts), .stream = stream};
    const struct labelled labelled = {source->rules, source->labels, source->cut, facts};
    struct reading reading;
    hashattn_status status = open_reading(host, &labelled, &builder, &reading);
    if (status == HASHATTN_OK)
        status = given_texts_visit(host, texts, source->rules.pairs, push_document, &reading);
    text_encoder_close(&reading.encoder);
    return dataset_stream_end(host, &builder, "texts", "documents", status);
}
