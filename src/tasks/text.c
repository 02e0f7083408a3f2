/* Text: people's own documents, classified by their bytes. Token id = byte + 1; a document longer than
   max_len bytes is cut (and counted), an empty one becomes a line feed, since a sequence has at least one
   token. The classes are the labels of the training file, sorted by bytes. Files: train, valid and test, each
   .jsonl ({"text": "...", "label": "..."} a line) or .tsv (label, tab, text); for prediction also .txt (a
   document a line). All of it is UTF-8. The data layout of the byte-level text task of the Long Range Arena
   (Tay et al. 2021), without its padding. Cost: every byte is read once and checked; memory is two bytes a
   token. SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"
#include "io/lines.h"
#include "io/utf8.h"
#include "tasks/dataset.h"

enum {
    VOCAB_SIZE = 257,
    LONGEST_LABEL = 200, /* bytes: it stands in messages and in config.json */
    MOST_LABELS = 10000,
};

struct text_options {
    int64_t max_len;
};

static const struct option_row rows[] = {
    {"max_len", OPTION_INT, offsetof(struct text_options, max_len), 4096, 1, 65536, NULL,
     "bytes of a document that are read, the rest is cut"},
    {NULL, 0, 0, 0, 0, 0, NULL, NULL},
};

static const char *const endings[] = {".jsonl", ".tsv", NULL};
static const struct split_files files = {{"train", "valid", "test"}, endings};

/* ---- one document out of one line ---- */

enum format { FORMAT_JSONL, FORMAT_TSV, FORMAT_PLAIN };

static enum format format_of(const char *path)
{
    const char *ending = strrchr(path, '.');
    if (ending != NULL && strcmp(ending, ".tsv") == 0)
        return FORMAT_TSV;
    if (ending != NULL && strcmp(ending, ".txt") == 0)
        return FORMAT_PLAIN;
    return FORMAT_JSONL;
}

struct document {
    struct piece text, label; /* label.bytes NULL: there is none */
    char number[24];          /* where the label stands when it was a number */
};

static hashattn_status read_label(struct host *host, const struct json *root, struct document *document)
{
    struct piece *label = &document->label;
    int64_t number;
    bool flag;
    label->bytes = json_text(json_find(root, "label"));
    if (label->bytes == NULL &&
        json_get_int(host, root, "label", INT64_MIN, INT64_MAX, &number) == HASHATTN_OK) {
        snprintf(document->number, sizeof document->number, "%" PRId64, number);
        label->bytes = document->number;
    }
    if (label->bytes == NULL && json_get_bool(host, root, "label", &flag) == HASHATTN_OK)
        label->bytes = flag ? "true" : "false";
    FAIL_IF(label->bytes == NULL, host, HASHATTN_BAD_FILE,
            "label is neither a string, nor a whole number, nor true or false");
    label->size = strlen(label->bytes);
    return HASHATTN_OK;
}

/* Passed over. A lone tab is an empty document without a label, if tabs separate. */
static bool is_blank(struct piece line, enum format format)
{
    if (format == FORMAT_TSV)
        return line.size == 0;
    for (size_t i = 0; i < line.size; i++)
        if (line.bytes[i] != ' ' && line.bytes[i] != '\t')
            return false;
    return true;
}

static hashattn_status check_label(struct host *host, struct piece label)
{
    char shown[SHOWN_SIZE];
    FAIL_IF(label.size == 0, host, HASHATTN_BAD_FILE, "the label is empty");
    FAIL_IF(label.size > LONGEST_LABEL, host, HASHATTN_BAD_FILE,
            "the label has %zu bytes, allowed are %d: '%s'", label.size, LONGEST_LABEL,
            piece_shown(label, shown));
    FAIL_IF(memchr(label.bytes, '\0', label.size) != NULL, host, HASHATTN_BAD_FILE,
            "the label holds a NUL byte: '%s'", piece_shown(label, shown));
    return HASHATTN_OK;
}

/* What is done with every document of a file. */
struct visit {
    enum format format;
    bool label_needed;
    hashattn_status (*use)(struct host *host, void *context, const struct document *document);
    void *context;
};

static hashattn_status use_json(struct host *host, const struct visit *visit, const struct json *root)
{
    struct document document = {.label = {NULL, 0}};
    TRY(json_get_string(host, root, "text", &document.text.bytes));
    document.text.size = strlen(document.text.bytes);
    hashattn_status status = read_label(host, root, &document);
    if (visit->label_needed) {
        TRY(status);
        TRY(check_label(host, document.label));
    }
    return visit->use(host, visit->context, &document);
}

static hashattn_status use_line(struct host *host, void *context, struct piece line, size_t number)
{
    (void)number;
    const struct visit *visit = context;
    TRY(utf8_check(host, line.bytes, line.size));
    if (visit->format == FORMAT_PLAIN)
        return visit->use(host, visit->context, &(struct document){.text = line});
    if (is_blank(line, visit->format))
        return HASHATTN_OK;
    if (visit->format == FORMAT_JSONL) {
        struct json *root;
        TRY(json_parse(host, line.bytes, line.size, &root));
        hashattn_status status = use_json(host, visit, root);
        json_free(root);
        return status;
    }
    struct piece fields[2];
    size_t count = lines_split(line, fields, 2);
    FAIL_IF(count != 2, host, HASHATTN_BAD_FILE, "no tab between label and text");
    if (visit->label_needed)
        TRY(check_label(host, fields[0]));
    return visit->use(host, visit->context, &(struct document){.label = fields[0], .text = fields[1]});
}

/* ---- labels ---- */

/* The place of a label among the sorted ones, or where it would stand. */
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
    *place = low;
    return false;
}

static hashattn_status collect_label(struct host *host, void *context, const struct document *document)
{
    struct task_facts *facts = context;
    struct piece label = document->label;
    size_t place;
    if (find_label(facts->labels, facts->num_classes, label, &place))
        return HASHATTN_OK;
    FAIL_IF(facts->num_classes == MOST_LABELS, host, HASHATTN_BAD_FILE, "more than %d different labels",
            MOST_LABELS);
    void *copy;
    TRY(memory_new_zeroed(host, label.size + 1, 1, "a label", &copy));
    memcpy(copy, label.bytes, label.size);
    char **here = facts->labels + place;
    memmove(here + 1, here, (facts->num_classes - place) * sizeof *here);
    *here = copy;
    facts->num_classes++;
    return HASHATTN_OK;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct task_facts *result)
{
    const struct text_options *text = options;
    char path[4096];
    void *labels;
    *result = (struct task_facts){.vocab_size = VOCAB_SIZE, .max_len = (size_t)text->max_len};
    hashattn_status status;
    TRY_DONE(split_find_train(host, &files, directory, path, sizeof path));
    TRY_DONE(memory_new_zeroed(host, MOST_LABELS, sizeof(char *), "labels", &labels));
    result->labels = labels;
    struct visit visit = {format_of(path), true, collect_label, result};
    TRY_DONE(file_each_line(host, path, use_line, &visit));
    if (result->num_classes == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no examples", path);
    else if (result->num_classes == 1)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has a single label '%s', at least 2 are needed", path,
                           result->labels[0]);
done:
    if (status != HASHATTN_OK)
        task_facts_free(host, result);
    return status;
}

/* ---- documents ---- */

struct reading {
    const struct task_facts *facts;
    bool label_needed;
    struct dataset_builder *builder;
};

static hashattn_status push_document(struct host *host, void *context, const struct document *document)
{
    const struct reading *reading = context;
    static const struct piece nothing = {"\n", 1};
    struct piece text = document->text.size == 0 ? nothing : document->text;
    size_t max_len = reading->facts->max_len, length = text.size < max_len ? text.size : max_len, label = 0;
    char shown[SHOWN_SIZE];
    bool known = document->label.bytes != NULL &&
                 find_label(reading->facts->labels, reading->facts->num_classes, document->label, &label);
    FAIL_IF(reading->label_needed && !known, host, HASHATTN_BAD_FILE,
            "the label '%s' does not occur in the training file", piece_shown(document->label, shown));
    uint16_t *tokens;
    TRY(dataset_room(host, reading->builder, length, &tokens));
    for (size_t i = 0; i < length; i++)
        tokens[i] = (uint16_t)(1 + (unsigned char)text.bytes[i]);
    dataset_push(reading->builder, length, known ? (int32_t)label : -1, length < text.size);
    return HASHATTN_OK;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    struct reading reading = {context, true, builder};
    struct visit visit = {format_of(path), true, push_document, &reading};
    return file_each_line(host, path, use_line, &visit);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)options; /* max_len is in the facts */
    return split_load(host, &files, directory, split, seed, read_file, facts, dataset);
}

static hashattn_status load_file(struct host *host, const void *options, const struct task_facts *facts,
                                 const char *path, struct dataset *dataset)
{
    (void)options;
    struct dataset_builder builder = {0};
    struct reading reading = {facts, false, &builder};
    struct visit visit = {format_of(path), false, push_document, &reading};
    hashattn_status status = file_each_line(host, path, use_line, &visit);
    if (status == HASHATTN_OK && builder.dataset.count == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no documents", path);
    return dataset_finish(host, &builder, status, dataset);
}

const struct task task_text = {
    .name = "text",
    .summary = "classify your own documents by their bytes (train.jsonl or train.tsv)",
    .options = rows,
    .options_size = sizeof(struct text_options),
    .preset = {.steps = 2000,
               .batch = 16,
               .eval_every = 100,
               .warmup = 100,
               .learning_rate = 1e-3,
               .layers = 2,
               .dim = 64,
               .heads = 2,
               .ffn = 128,
               .hash_bits = 9,
               .pooling = "mean"},
    .lra = {.steps = 20000,
            .batch = 32,
            .eval_every = 500,
            .warmup = 8000,
            .learning_rate = 1e-4,
            .layers = 2,
            .dim = 64,
            .heads = 2,
            .ffn = 128,
            .hash_bits = 12,
            .pooling = "mean-padded"},
    .facts = facts,
    .load = load,
    .load_file = load_file,
};
