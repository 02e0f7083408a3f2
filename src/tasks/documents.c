/* Two passes over the training file: labels and words, then ids. Cost: a text is read up to max_len tokens in
   the second; memory is two bytes a token.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/tables/index_table.h"

enum { MOST_LABELS = 10000 };

const char *const document_endings[] = {".jsonl", ".tsv", ".csv", "/", NULL};

/* ---- labels and vocabulary ---- */

/* Sets *place to the index of a label among the sorted ones; false: it is not there. */
static bool find_label(char *const *labels, size_t count, struct piece label, size_t *place)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        size_t size = strlen(labels[middle]);
        int order = memcmp(label.bytes, labels[middle], size < label.size ? size : label.size);
        if (order == 0 && size == label.size) {
            *place = middle;
            return true;
        }
        if (order > 0 || (order == 0 && size < label.size))
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static int compare_labels(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The first pass. Labels are in the order of the file until its end. */
struct learning {
    struct task_facts *facts;
    struct index_table labels;
    const struct token_choice *choice;
    struct word_counts counts;
};

static hashattn_status add_label(struct host *host, struct learning *learning, struct piece label)
{
    struct task_facts *facts = learning->facts;
    uint32_t index;
    TRY(index_table_grow(host, &learning->labels));
    uint64_t hash = hash_bytes(&learning->labels.key, label.bytes, label.size);
    for (size_t probes = 0; index_table_next(&learning->labels, hash, &probes, &index);)
        if (piece_is(label, facts->labels[index]))
            return HASHATTN_OK;
    FAIL_IF(facts->num_classes == MOST_LABELS, host, HASHATTN_BAD_FILE, "more than %d different labels",
            MOST_LABELS);
    void *copy;
    TRY(memory_new_zeroed(host, label.size + 1, 1, "a label", &copy));
    memcpy(copy, label.bytes, label.size);
    index_table_add(&learning->labels, hash, (uint32_t)facts->num_classes);
    facts->labels[facts->num_classes++] = copy;
    return HASHATTN_OK;
}

static hashattn_status learn_from(struct host *host, void *context, const struct document *document)
{
    struct learning *learning = context;
    for (int i = 0; i < (learning->facts->pairs ? 2 : 1); i++)
        TRY(tokens_count(host, learning->choice, document->texts[i], &learning->counts));
    return add_label(host, learning, document->label);
}

static hashattn_status check_labels(struct host *host, const char *path, const struct task_facts *facts)
{
    FAIL_IF(facts->num_classes == 0, host, HASHATTN_BAD_FILE, "%s has no examples", path);
    FAIL_IF(facts->num_classes == 1, host, HASHATTN_BAD_FILE,
            "%s has a single label '%s', at least 2 are needed", path, facts->labels[0]);
    return HASHATTN_OK;
}

hashattn_status documents_facts(struct host *host, const struct document_source *source,
                                const char *directory, const struct token_choice *choice, size_t max_len,
                                struct task_facts *facts)
{
    char path[FILE_PATH];
    void *labels;
    struct learning learning = {.facts = facts, .choice = choice};
    struct document_rules rules = source->rules;
    *facts = (struct task_facts){.max_len = max_len > 0 ? max_len : tokens_usual_len(choice),
                                 .pairs = source->rules.pairs};
    hashattn_status status;
    rules.label_needed = true;
    TRY_DONE(tokens_check(host, choice));
    TRY_DONE(split_find_train(host, source->files, directory, path, sizeof path));
    TRY_DONE(memory_new_zeroed(host, MOST_LABELS, sizeof(char *), "labels", &labels));
    facts->labels = labels;
    TRY_DONE(document_file_read(host, path, FILE_FOUND, &rules, learn_from, &learning));
    TRY_DONE(check_labels(host, path, facts));
    qsort(facts->labels, facts->num_classes, sizeof *facts->labels, compare_labels);
    task_facts_add(facts, "classify", facts->num_classes, 0);
    status = tokens_learn(host, choice, &learning.counts, facts); /* last, because it takes the tokenizer */
done:
    word_counts_free(host, &learning.counts);
    index_table_free(host, &learning.labels);
    if (status != HASHATTN_OK)
        task_facts_free(host, facts);
    return status;
}

/* ---- documents ---- */

struct reading {
    const struct document_rules *rules;
    const struct task_facts *facts;
    struct text_encoder encoder;
    struct dataset_builder *builder;
};

static hashattn_status push_document(struct host *host, void *context, const struct document *document)
{
    struct reading *reading = context;
    const struct task_facts *facts = reading->facts;
    size_t label = 0, row;
    char shown[SHOWN_SIZE];
    bool known = document->label.bytes != NULL &&
                 find_label(facts->labels, facts->num_classes, document->label, &label);
    FAIL_IF(reading->rules->label_needed && !known, host, HASHATTN_BAD_FILE,
            "the label '%s' does not occur in the training file", piece_shown(document->label, shown));
    TRY(dataset_reserve(host, reading->builder, facts->max_len * (facts->pairs ? 2 : 1), &row));
    const struct dataset *dataset = &reading->builder->dataset;
    struct token_row tokens = {.ids = dataset->ids + row,
                               .segments = dataset->segmented ? dataset->segments + row : NULL};
    TRY(text_encoder_write(host, &reading->encoder, document->texts[0], &tokens));
    size_t first = tokens.count;
    int32_t number = known ? (int32_t)label : -1;
    if (!facts->pairs) {
        dataset_push_label(reading->builder, first, number, tokens.cut);
        return HASHATTN_OK;
    }
    tokens.ids += first;
    tokens.segments = dataset->segmented ? tokens.segments + first : NULL;
    TRY(text_encoder_write(host, &reading->encoder, document->texts[1], &tokens));
    dataset_push_pair(reading->builder, first, tokens.count, number, tokens.cut);
    return HASHATTN_OK;
}

static hashattn_status read_documents(struct host *host, const struct document_rules *rules,
                                      const struct task_facts *facts, const char *path,
                                      struct dataset_builder *builder)
{
    struct reading reading = {.rules = rules, .facts = facts, .builder = builder};
    hashattn_status status = text_encoder_open(host, facts, &reading.encoder);
    if (status == HASHATTN_OK)
        status = document_file_read(host, path, dataset_source(builder), rules, push_document, &reading);
    text_encoder_close(&reading.encoder);
    return status;
}

/* What a split's reader needs. */
struct labelled {
    struct document_rules rules;
    const struct task_facts *facts;
};

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    const struct labelled *labelled = context;
    return read_documents(host, &labelled->rules, labelled->facts, path, builder);
}

hashattn_status documents_load(struct host *host, const struct document_source *source,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset)
{
    struct dataset shape = {.pairs = facts->pairs, .segmented = facts->num_segments > 0};
    struct labelled labelled = {source->rules, facts};
    labelled.rules.label_needed = true;
    dataset_classified(&shape);
    return split_load(host, source->files, directory, split, seed, &shape, read_file, &labelled, dataset);
}

hashattn_status documents_stream(struct host *host, const struct document_rules *rules,
                                 const struct task_facts *facts, const char *path,
                                 const struct dataset_stream *stream)
{
    struct dataset_builder builder = {
        .dataset = {.pairs = facts->pairs, .segmented = facts->num_segments > 0}, .stream = stream};
    dataset_classified(&builder.dataset);
    hashattn_status status = read_documents(host, rules, facts, path, &builder);
    return dataset_stream_end(host, &builder, path, "documents", status);
}
