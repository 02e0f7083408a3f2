/* Each format fills the same struct. Lines and records are read in blocks.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/document_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/utf8.h"

enum { LONGEST_LABEL = 200 }; /* bytes; a label appears in messages and in config.json */

enum format { FORMAT_JSONL, FORMAT_TSV, FORMAT_PLAIN, FORMAT_CSV, FORMAT_FOLDERS };

static enum format format_of(const char *path)
{
    static const struct {
        const char *ending;
        enum format format;
    } known[] = {{".tsv", FORMAT_TSV}, {".txt", FORMAT_PLAIN}, {".csv", FORMAT_CSV}};
    const char *ending = strrchr(path, '.');
    if (file_is_directory(path))
        return FORMAT_FOLDERS;
    for (size_t i = 0; ending != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(ending, known[i].ending) == 0)
            return known[i].format;
    return FORMAT_JSONL;
}

/* What happens to every document of a file. */
struct visit {
    enum format format;
    const struct document_rules *rules;
    document_visitor *use;
    void *context;
};

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

static hashattn_status use_document(struct host *host, const struct visit *visit,
                                    const struct document *document)
{
    if (visit->rules->label_needed)
        TRY(check_label(host, document->label));
    return visit->use(host, visit->context, document);
}

static size_t num_texts(const struct visit *visit)
{
    return visit->rules->pairs ? 2 : 1;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* True for the text of a whole number beyond 64 bits. */
static bool is_long(const char *text)
{
    size_t digits = strspn(text + (text[0] == '-'), "0123456789");
    return digits >= 19 && text[(text[0] == '-') + digits] == '\0';
}

/* number: room for the text of a label that is a number. */
static hashattn_status read_label(struct host *host, const struct json *root, const char *name,
                                  char number[JSON_MAX_NUMBER], struct piece *label)
{
    const char *text;
    int64_t whole;
    bool flag;
    label->bytes = json_text(json_find(root, name));
    if (label->bytes == NULL && json_get_text(host, root, name, number, &text) == HASHATTN_OK &&
        (is_long(text) || json_get_int(host, root, name, INT64_MIN, INT64_MAX, &whole) == HASHATTN_OK ||
         json_get_bool(host, root, name, &flag) == HASHATTN_OK))
        label->bytes = text;
    FAIL_IF(label->bytes == NULL, host, HASHATTN_BAD_FILE,
            "%s is neither a string, nor a whole number, nor true or false", name);
    label->size = strlen(label->bytes);
    return HASHATTN_OK;
}

static hashattn_status use_json(struct host *host, const struct visit *visit, const struct json *root)
{
    struct document document = {.label = {NULL, 0}};
    char number[JSON_MAX_NUMBER];
    for (size_t i = 0; i < num_texts(visit); i++) {
        TRY(json_get_string(host, root, visit->rules->texts[i], &document.texts[i].bytes));
        document.texts[i].size = strlen(document.texts[i].bytes);
    }
    hashattn_status status = read_label(host, root, visit->rules->label, number, &document.label);
    if (visit->rules->label_needed)
        TRY(status);
    return use_document(host, visit, &document);
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
    TRY(visit->rules->pairs ? split_pair(host, line, &document) : split_text(host, line, &document));
    return use_document(host, visit, &document);
}

/* ---- records ------------------------------------------------------------------------------------------- */

struct columns {
    size_t count, texts[2], label; /* label SIZE_MAX: none */
};

static hashattn_status find_column(struct host *host, const struct csv *csv, const char *name, bool needed,
                                   size_t *column)
{
    size_t found = 0;
    *column = SIZE_MAX;
    for (size_t i = 0; i < csv->count; i++)
        if (piece_is(csv->fields[i], name)) {
            *column = i;
            found++;
        }
    FAIL_IF(found > 1, host, HASHATTN_BAD_FILE, "line 1: %zu of the %zu columns are named '%s'", found,
            csv->count, name);
    char shown[SHOWN_SIZE];
    FAIL_IF(found == 0 && needed, host, HASHATTN_BAD_FILE,
            "line 1: none of the %zu columns is named '%s'; the first is '%s'", csv->count, name,
            piece_shown(csv->fields[0], shown));
    return HASHATTN_OK;
}

static hashattn_status read_header(struct host *host, struct csv *csv, const struct document_rules *rules,
                                   struct columns *columns)
{
    TRY(csv_next(host, csv));
    FAIL_IF(csv->count == 0, host, HASHATTN_BAD_FILE, "the file is empty, a header is needed");
    columns->count = csv->count;
    for (size_t i = 0; i < (rules->pairs ? 2u : 1u); i++)
        TRY(find_column(host, csv, rules->texts[i], true, &columns->texts[i]));
    return find_column(host, csv, rules->label, rules->label_needed, &columns->label);
}

static hashattn_status use_record(struct host *host, const struct visit *visit, const struct csv *csv,
                                  const struct columns *columns)
{
    struct document document = {.label = {NULL, 0}};
    FAIL_IF(csv->count != columns->count, host, HASHATTN_BAD_FILE, "%zu fields, the header has %zu",
            csv->count, columns->count);
    for (size_t i = 0; i < csv->count; i++)
        TRY(utf8_check(host, csv->fields[i].bytes, csv->fields[i].size));
    for (size_t i = 0; i < num_texts(visit); i++)
        document.texts[i] = csv->fields[columns->texts[i]];
    if (columns->label != SIZE_MAX)
        document.label = csv->fields[columns->label];
    return use_document(host, visit, &document);
}

static hashattn_status each_record(struct host *host, const char *path, enum file_source source,
                                   const struct visit *visit)
{
    struct csv csv;
    struct columns columns = {.count = 0};
    TRY(csv_open(host, path, source, &csv));
    hashattn_status status = read_header(host, &csv, visit->rules, &columns);
    while (status == HASHATTN_OK) {
        status = csv_next(host, &csv);
        if (status != HASHATTN_OK || csv.count == 0)
            break;
        if (csv.count == 1 && csv.fields[0].size == 0 && columns.count > 1)
            continue; /* a blank line */
        status = use_record(host, visit, &csv, &columns);
        if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED) {
            char line[40];
            snprintf(line, sizeof line, "line %zu", csv.line);
            host_prefix(host, line);
        }
    }
    csv_close(host, &csv);
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        host_prefix(host, path);
    return status;
}

/* ---- folders ------------------------------------------------------------------------------------------- */

static hashattn_status each_file(struct host *host, const char *folder, const char *label,
                                 const struct visit *visit)
{
    const char **names;
    size_t count;
    TRY(file_list(host, folder, ".txt", &names, &count));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        char path[FILE_PATH], *bytes = NULL;
        size_t size;
        TRY_DONE(file_join(host, folder, names[i], path, sizeof path));
        TRY_DONE(file_read_regular(host, path, FILE_MOST, &bytes, &size));
        const struct document document = {.texts = {{bytes, size}}, .label = {label, strlen(label)}};
        status = utf8_check(host, bytes, size);
        if (status == HASHATTN_OK)
            status = use_document(host, visit, &document);
        if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
            host_prefix(host, path);
        memory_free(host, bytes);
    }
done:
    memory_free(host, names);
    return status;
}

/* Labels are the names of the folders, in order. */
static hashattn_status each_folder(struct host *host, const char *path, const struct visit *visit)
{
    const char **names;
    size_t count;
    FAIL_IF(visit->rules->pairs, host, HASHATTN_BAD_FILE, "%s is a directory; pairs are read from files",
            path);
    TRY(file_list(host, path, "", &names, &count));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        char folder[FILE_PATH];
        TRY_DONE(file_join(host, path, names[i], folder, sizeof folder));
        if (file_is_directory(folder) && strcmp(names[i], "unsup") != 0)
            status = each_file(host, folder, names[i], visit);
    }
done:
    memory_free(host, names);
    return status;
}

hashattn_status document_file_read(struct host *host, const char *path, enum file_source source,
                                   const struct document_rules *rules, document_visitor *visit, void *context)
{
    struct visit of = {format_of(path), rules, visit, context};
    FAIL_IF(of.format == FORMAT_PLAIN && rules->pairs, host, HASHATTN_BAD_FILE,
            "%s: a line of a .txt file is one text; pairs are read from .jsonl, .tsv and .csv", path);
    if (of.format == FORMAT_FOLDERS)
        return each_folder(host, path, &of);
    return of.format == FORMAT_CSV ? each_record(host, path, source, &of)
                                   : file_each_line(host, path, source, use_line, &of);
}
