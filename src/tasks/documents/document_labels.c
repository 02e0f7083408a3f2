/* Labels are found by hash in the first pass and by bisection after it. A document has few of many labels, so
   sets of labels are sparse targets.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_labels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/memory.h"
#include "io/decimal.h"
#include "io/json.h"
#include "tasks/documents/document_parts.h"

/* Few documents may have a label each; many that do are read from the wrong column. */
enum { FEW_DOCUMENTS = 20 };

/* ---- the labels of a document -------------------------------------------------------------------------- */

typedef hashattn_status label_visitor(struct host *host, void *context, struct piece label);

static struct piece trimmed(struct piece piece)
{
    while (piece.size > 0 && (*piece.bytes == ' ' || *piece.bytes == '\t'))
        piece.bytes++, piece.size--;
    while (piece.size > 0 && (piece.bytes[piece.size - 1] == ' ' || piece.bytes[piece.size - 1] == '\t'))
        piece.size--;
    return piece;
}

static hashattn_status each_in_list(struct host *host, const struct json *list, label_visitor *visit,
                                    void *context)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const char *text = json_text(json_element(list, i));
        FAIL_IF(text == NULL || *text == '\0', host, HASHATTN_BAD_FILE,
                "element %zu of the labels is no word", i);
        TRY(visit(host, context, (struct piece){text, strlen(text)}));
    }
    return HASHATTN_OK;
}

/* Visits the label of a document, or each of its labels. */
static hashattn_status each_label(struct host *host, enum label_kind kind, const struct document *document,
                                  label_visitor *visit, void *context)
{
    struct piece rest = document->label;
    if (kind == LABELS_CLASS)
        return visit(host, context, rest);
    if (document->label_json != NULL)
        return each_in_list(host, document->label_json, visit, context);
    while (rest.size > 0) {
        const char *comma = memchr(rest.bytes, ',', rest.size);
        size_t size = comma == NULL ? rest.size : (size_t)(comma - rest.bytes);
        struct piece label = trimmed((struct piece){rest.bytes, size});
        if (label.size > 0)
            TRY(visit(host, context, label));
        size += comma != NULL;
        rest = (struct piece){rest.bytes + size, rest.size - size};
    }
    return HASHATTN_OK;
}

static bool is_number(struct piece text, double *value)
{
    struct c_locale locale = c_locale_begin();
    bool is = decimal_read(trimmed(text), value);
    c_locale_end(locale);
    return is;
}

static hashattn_status read_number(struct host *host, struct piece text, double *value)
{
    char shown[SHOWN_SIZE];
    FAIL_IF(!is_number(text, value), host, HASHATTN_BAD_FILE, "the label '%s' is no number",
            piece_shown(text, shown));
    return HASHATTN_OK;
}

/* ---- the first pass ------------------------------------------------------------------------------------ */

struct adding {
    struct label_pass *pass;
    const struct document *document;
};

static hashattn_status add_label(struct host *host, void *context, struct piece label)
{
    const struct adding *adding = context;
    struct label_pass *pass = adding->pass;
    uint32_t index;
    if (pass->kind == LABELS_MANY) /* the visit has checked a single one */
        TRY(document_check_label(host, label));
    TRY(index_table_grow(host, &pass->table));
    uint64_t hash = hash_bytes(&pass->table.key, label.bytes, label.size);
    for (size_t probes = 0; index_table_next(&pass->table, hash, &probes, &index);)
        if (piece_is(label, pass->seen[index].name)) {
            pass->seen[index].count++;
            return HASHATTN_OK;
        }
    FAIL_IF(pass->count == LABELS_MOST, host, HASHATTN_BAD_FILE, "more than %d different labels",
            LABELS_MOST);
    void *copy;
    TRY(memory_grow(host, &pass->seen, &pass->capacity, pass->count, 1, sizeof *pass->seen, "labels"));
    TRY(memory_new_zeroed(host, label.size + 1, 1, "a label", &copy));
    memcpy(copy, label.bytes, label.size);
    index_table_add(&pass->table, hash, (uint32_t)pass->count);
    struct label_seen *seen = &pass->seen[pass->count++];
    *seen = (struct label_seen){.name = copy, .count = 1};
    piece_shown(adding->document->texts[0], seen->example);
    return HASHATTN_OK;
}

static hashattn_status add_number(struct host *host, struct label_pass *pass, const struct document *document)
{
    double value;
    TRY(read_number(host, document->label, &value));
    if (pass->documents == 1 || value < pass->least) {
        pass->least = value;
        piece_shown(document->texts[0], pass->examples[0]);
    }
    if (pass->documents == 1 || value > pass->greatest) {
        pass->greatest = value;
        piece_shown(document->texts[0], pass->examples[1]);
    }
    double off = value - pass->mean;
    pass->mean += off / (double)pass->documents;
    pass->squares += off * (value - pass->mean);
    return HASHATTN_OK;
}

hashattn_status label_pass_add(struct host *host, struct label_pass *pass, const struct document *document)
{
    struct adding adding = {pass, document};
    pass->documents++;
    return pass->kind == LABELS_NUMBER ? add_number(host, pass, document)
                                       : each_label(host, pass->kind, document, add_label, &adding);
}

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const struct label_seen *)a)->name, ((const struct label_seen *)b)->name);
}

static hashattn_status check_labels(struct host *host, const struct label_pass *pass, const char *path)
{
    size_t once = 0, first = SIZE_MAX;
    bool numbers = true;
    for (size_t i = 0; i < pass->count; i++) {
        double unused;
        numbers &= is_number((struct piece){pass->seen[i].name, strlen(pass->seen[i].name)}, &unused);
        if (pass->seen[i].count == 1 && once++ == 0)
            first = i;
    }
    FAIL_IF(pass->count == 0, host, HASHATTN_BAD_FILE, "%s has no labels", path);
    FAIL_IF(pass->count == 1 && pass->kind == LABELS_CLASS, host, HASHATTN_BAD_FILE,
            "%s has a single label '%s', at least 2 are needed", path, pass->seen[0].name);
    char shown[SHOWN_SIZE];
    FAIL_IF(pass->kind == LABELS_CLASS && pass->documents >= FEW_DOCUMENTS && once > pass->documents / 2,
            host, HASHATTN_BAD_FILE, "%s: %zu of %zu labels occur once, as '%s': %s", path, once, pass->count,
            piece_shown((struct piece){pass->seen[first].name, strlen(pass->seen[first].name)}, shown),
            numbers
                ? "numbers to predict need `label_type` number"
                : "this is the column of the text, or of something else; `label_column` and `text_column` "
                  "name the columns, and with `header=false` their numbers");
    return HASHATTN_OK;
}

static hashattn_status keep_examples(struct host *host, const char *first, const char *last,
                                     struct task_facts *facts)
{
    void *block;
    TRY(memory_new(host, 2, SHOWN_SIZE, "examples of labels", &block));
    facts->shown = block;
    strcpy(facts->shown[0], first);
    strcpy(facts->shown[1], last);
    return HASHATTN_OK;
}

static hashattn_status end_numbers(struct host *host, const struct label_pass *pass, const char *path,
                                   const char *column, struct task_facts *facts)
{
    double deviation = sqrt(pass->squares / (double)pass->documents);
    void *block;
    FAIL_IF(!(deviation > 0), host, HASHATTN_BAD_FILE, "%s: all %zu labels are %g", path, pass->documents,
            pass->mean);
    TRY(memory_new_zeroed(host, 1, sizeof *facts->columns, "the column of labels", &block));
    facts->columns = block;
    facts->num_columns = 1;
    TRY(memory_new(host, strlen(column) + 1, 1, "the column of labels", &block));
    facts->columns[0] = (struct task_column){.name = block, .mean = pass->mean, .deviation = deviation};
    strcpy(facts->columns[0].name, column);
    task_facts_add(facts, "regress", 1, 0);
    return keep_examples(host, pass->examples[0], pass->examples[1], facts);
}

hashattn_status label_pass_end(struct host *host, struct label_pass *pass, const char *path,
                               const char *column, struct task_facts *facts)
{
    void *block;
    FAIL_IF(pass->documents == 0, host, HASHATTN_BAD_FILE, "%s has no examples", path);
    if (pass->kind == LABELS_NUMBER)
        return end_numbers(host, pass, path, column, facts);
    TRY(check_labels(host, pass, path));
    qsort(pass->seen, pass->count, sizeof *pass->seen, compare_labels);
    TRY(memory_new_zeroed(host, pass->count, sizeof *facts->labels, "labels", &block));
    facts->labels = block;
    facts->num_classes = pass->count;
    for (size_t i = 0; i < pass->count; i++) {
        facts->labels[i] = pass->seen[i].name;
        pass->seen[i].name = NULL;
    }
    task_facts_add(facts, pass->kind == LABELS_MANY ? "label_set" : "classify", facts->num_classes, 0);
    return keep_examples(host, pass->seen[0].example, pass->seen[pass->count - 1].example, facts);
}

void label_pass_free(struct host *host, struct label_pass *pass)
{
    for (size_t i = 0; i < pass->count; i++)
        memory_free(host, pass->seen[i].name);
    memory_free(host, pass->seen);
    index_table_free(host, &pass->table);
    *pass = (struct label_pass){.kind = pass->kind};
}

/* ---- targets ------------------------------------------------------------------------------------------- */

void labels_shape(enum label_kind kind, const struct task_facts *facts, struct dataset *dataset)
{
    dataset_classified(dataset);
    if (kind == LABELS_NUMBER)
        dataset->targets[0].width = 1;
    if (kind == LABELS_MANY) {
        dataset->targets[0].width = facts->num_classes;
        dataset->targets[0].sparse = true;
    }
}

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

/* Adds a label to the set of the next example. */
static hashattn_status add_place(struct host *host, struct dataset_builder *builder, size_t place)
{
    struct target_set *set = &builder->dataset.targets[0];
    struct target_ones *ones = &set->ones[builder->dataset.count];
    size_t end = ones->first + ones->count;
    TRY(memory_grow(host, &set->places, &builder->place_capacity, end, 1, sizeof *set->places,
                    "labels of documents"));
    set->places[end] = (uint32_t)place;
    ones->count++;
    return HASHATTN_OK;
}

static int compare_places(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the set of the next example. A label that its document repeats is in it once. */
static void sort_places(struct dataset_builder *builder)
{
    struct target_set *set = &builder->dataset.targets[0];
    struct target_ones *ones = &set->ones[builder->dataset.count];
    size_t kept = 0;
    if (ones->count == 0)
        return;
    uint32_t *places = set->places + ones->first;
    qsort(places, ones->count, sizeof *places, compare_places);
    for (size_t i = 0; i < ones->count; i++)
        if (kept == 0 || places[i] != places[kept - 1])
            places[kept++] = places[i];
    ones->count = kept;
}

/* Where the labels of a document go. */
struct placing {
    const struct task_facts *facts;
    struct dataset_builder *builder;
    enum label_kind kind;
    bool needed, unknown;
};

static hashattn_status place_label(struct host *host, void *context, struct piece label)
{
    struct placing *placing = context;
    const struct task_facts *facts = placing->facts;
    struct target_set *set = &placing->builder->dataset.targets[0];
    size_t place = 0, example = placing->builder->dataset.count;
    char shown[SHOWN_SIZE];
    bool known = label.bytes != NULL && find_label(facts->labels, facts->num_classes, label, &place);
    FAIL_IF(placing->needed && !known, host, HASHATTN_BAD_FILE,
            "the label '%s' does not occur in the training file", piece_shown(label, shown));
    placing->unknown |= !known;
    if (known && placing->kind == LABELS_MANY)
        return add_place(host, placing->builder, place);
    if (placing->kind == LABELS_CLASS)
        set->ids[example] = (uint32_t)place;
    return HASHATTN_OK;
}

hashattn_status labels_place(struct host *host, enum label_kind kind, const struct task_facts *facts,
                             const struct document *document, bool needed, struct dataset_builder *builder)
{
    struct target_set *set = &builder->dataset.targets[0];
    size_t example = builder->dataset.count;
    struct placing placing = {facts, builder, kind, needed, false};
    double value = 0;
    if (kind == LABELS_MANY) {
        struct target_ones before = example > 0 ? set->ones[example - 1] : (struct target_ones){0};
        set->ones[example] = (struct target_ones){.first = before.first + before.count};
        placing.unknown = document->label.bytes == NULL && document->label_json == NULL;
        TRY(each_label(host, kind, document, place_label, &placing));
        sort_places(builder);
    } else if (kind == LABELS_CLASS) {
        TRY(each_label(host, kind, document, place_label, &placing));
    } else if (needed) {
        TRY(read_number(host, document->label, &value));
    } else {
        placing.unknown = document->label.bytes == NULL || !is_number(document->label, &value);
    }
    if (kind == LABELS_NUMBER)
        set->floats[example] =
            placing.unknown ? 0 : (float)((value - facts->columns[0].mean) / facts->columns[0].deviation);
    set->weights[example] = placing.unknown ? 0 : 1;
    return HASHATTN_OK;
}
