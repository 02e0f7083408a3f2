/* Readers of documents, shared by the tasks text and retrieval. Cost: every byte is read once and checked;
   memory is two bytes a token. SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "io/lines.h"
#include "io/utf8.h"

enum {
    LONGEST_LABEL = 200, /* bytes; a label appears in messages and in config.json */
    MOST_LABELS = 10000,
};

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
    struct piece texts[2]; /* only pairs use the second */
    struct piece label;    /* label.bytes NULL: no label */
    char number[24];       /* text of a label that was a number */
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

/* Blank lines are skipped. With tabs as separators, a lone tab is an empty document without a label. */
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

/* What happens to every document of a file. */
struct visit {
    enum format format;
    bool pairs, label_needed;
    hashattn_status (*use)(struct host *host, void *context, const struct document *document);
    void *context;
};

static hashattn_status use_json(struct host *host, const struct visit *visit, const struct json *root)
{
    static const char *const names[] = {"text", "text1", "text2"};
    struct document document = {.label = {NULL, 0}};
    for (int i = 0; i < (visit->pairs ? 2 : 1); i++) {
        TRY(json_get_string(host, root, names[visit->pairs ? i + 1 : 0], &document.texts[i].bytes));
        document.texts[i].size = strlen(document.texts[i].bytes);
    }
    hashattn_status status = read_label(host, root, &document);
    if (visit->label_needed) {
        TRY(status);
        TRY(check_label(host, document.label));
    }
    return visit->use(host, visit->context, &document);
}

/* Label, tab, text; further tabs belong to the text. */
static hashattn_status split_text(struct host *host, struct piece line, struct document *document)
{
    struct piece fields[2];
    FAIL_IF(lines_split(line, fields, 2) != 2, host, HASHATTN_BAD_FILE, "no tab between label and text");
    *document = (struct document){.label = fields[0], .texts = {fields[1]}};
    return HASHATTN_OK;
}

/* Label and two texts, or label, two names and two texts as in the Long Range Arena. */
static hashattn_status split_pair(struct host *host, struct piece line, struct document *document)
{
    struct piece fields[6];
    size_t count = lines_split(line, fields, 6);
    FAIL_IF(
        count != 3 && count != 5, host, HASHATTN_BAD_FILE,
        "%zu%s fields between tabs; a pair has 3 (label, text, text) or 5 (label, name, name, text, text)",
        count, count == 6 ? " or more" : "");
    *document = (struct document){.label = fields[0], .texts = {fields[count - 2], fields[count - 1]}};
    return HASHATTN_OK;
}

static hashattn_status use_line(struct host *host, void *context, struct piece line, size_t number)
{
    (void)number;
    const struct visit *visit = context;
    TRY(utf8_check(host, line.bytes, line.size));
    if (visit->format == FORMAT_PLAIN)
        return visit->use(host, visit->context, &(struct document){.texts = {line}});
    if (is_blank(line, visit->format))
        return HASHATTN_OK;
    if (visit->format == FORMAT_JSONL) {
        struct json *root;
        TRY(json_parse(host, line.bytes, line.size, &root));
        hashattn_status status = use_json(host, visit, root);
        json_free(root);
        return status;
    }
    struct document document;
    TRY(visit->pairs ? split_pair(host, line, &document) : split_text(host, line, &document));
    if (visit->label_needed)
        TRY(check_label(host, document.label));
    return visit->use(host, visit->context, &document);
}

/* ---- labels ---- */

/* Sets *place to the index of a label among the sorted ones, or to the index at which it would be
   inserted. */
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

hashattn_status documents_facts(struct host *host, const struct split_files *files, const char *directory,
                                size_t max_len, struct task_facts *facts)
{
    char path[FILE_PATH];
    void *labels;
    *facts = (struct task_facts){
        .vocab_size = DOCUMENTS_VOCAB, .max_len = max_len, .pairs = files->pairs, .bytes = true};
    hashattn_status status;
    TRY_DONE(split_find_train(host, files, directory, path, sizeof path));
    TRY_DONE(memory_new_zeroed(host, MOST_LABELS, sizeof(char *), "labels", &labels));
    facts->labels = labels;
    struct visit visit = {format_of(path), files->pairs, true, collect_label, facts};
    TRY_DONE(file_each_line(host, path, use_line, &visit));
    if (facts->num_classes == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no examples", path);
    else if (facts->num_classes == 1)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has a single label '%s', at least 2 are needed", path,
                           facts->labels[0]);
    task_facts_add(facts, "classify", facts->num_classes, 0);
done:
    if (status != HASHATTN_OK)
        task_facts_free(host, facts);
    return status;
}

/* ---- documents ---- */

struct reading {
    const struct task_facts *facts;
    bool label_needed;
    struct dataset_builder *builder;
};

/* Writes the tokens of a text, cut to max_len, to `tokens`; an empty text becomes a line feed. */
static size_t write_tokens(uint32_t *tokens, struct piece text, size_t max_len, bool *cut)
{
    static const struct piece nothing = {"\n", 1};
    text = text.size == 0 ? nothing : text;
    size_t length = text.size < max_len ? text.size : max_len;
    for (size_t i = 0; i < length; i++)
        tokens[i] = 1u + (unsigned char)text.bytes[i];
    *cut |= length < text.size;
    return length;
}

static hashattn_status push_document(struct host *host, void *context, const struct document *document)
{
    const struct reading *reading = context;
    const struct task_facts *facts = reading->facts;
    size_t label = 0, max_len = facts->max_len;
    char shown[SHOWN_SIZE];
    bool known = document->label.bytes != NULL &&
                 find_label(facts->labels, facts->num_classes, document->label, &label);
    FAIL_IF(reading->label_needed && !known, host, HASHATTN_BAD_FILE,
            "the label '%s' does not occur in the training file", piece_shown(document->label, shown));
    size_t room = 0;
    for (int i = 0; i < 2; i++)
        room += document->texts[i].size < max_len ? document->texts[i].size + 1 : max_len;
    size_t row;
    bool cut = false;
    TRY(dataset_room(host, reading->builder, room, &row));
    uint32_t *tokens = reading->builder->dataset.ids + row;
    size_t first = write_tokens(tokens, document->texts[0], max_len, &cut);
    int32_t number = known ? (int32_t)label : -1;
    if (!facts->pairs) {
        dataset_push_label(reading->builder, first, number, cut);
        return HASHATTN_OK;
    }
    size_t second = write_tokens(tokens + first, document->texts[1], max_len, &cut);
    dataset_push_pair(reading->builder, first, second, number, cut);
    return HASHATTN_OK;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    const struct task_facts *facts = context;
    struct reading reading = {facts, true, builder};
    struct visit visit = {format_of(path), facts->pairs, true, push_document, &reading};
    return file_each_line(host, path, use_line, &visit);
}

hashattn_status documents_load(struct host *host, const struct split_files *files,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset)
{
    struct dataset shape = {.pairs = facts->pairs};
    dataset_classified(&shape);
    return split_load(host, files, directory, split, seed, &shape, read_file, facts, dataset);
}

hashattn_status documents_load_file(struct host *host, const void *options, const struct task_facts *facts,
                                    const char *path, struct dataset *dataset)
{
    (void)options;
    struct dataset_builder builder = {.dataset.pairs = facts->pairs};
    dataset_classified(&builder.dataset);
    struct reading reading = {facts, false, &builder};
    struct visit visit = {format_of(path), facts->pairs, false, push_document, &reading};
    *dataset = (struct dataset){0};
    FAIL_IF(visit.format == FORMAT_PLAIN && facts->pairs, host, HASHATTN_BAD_FILE,
            "%s: a line of a .txt file is one text; pairs are read from .jsonl and .tsv", path);
    hashattn_status status = file_each_line(host, path, use_line, &visit);
    if (status == HASHATTN_OK && builder.dataset.count == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no documents", path);
    return dataset_finish(host, &builder, status, dataset);
}
