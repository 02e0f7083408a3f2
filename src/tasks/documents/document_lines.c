/* Files with a document on each line: .jsonl, .tsv, and .txt with `lines`. Lines are read in blocks.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "io/json.h"
#include "tasks/documents/document_parts.h"

enum { MOST_COLUMNS = 64 };

typedef hashattn_status line_reader(struct host *host, const struct document_visit *visit, struct piece line,
                                    void *own);

/* A file that is read line by line. */
struct reading {
    const struct document_visit *visit;
    line_reader *read;
    void *own; /* of the reader */
};

static hashattn_status read_line(struct host *host, void *context, struct piece line, size_t number)
{
    const struct reading *reading = context;
    hashattn_status status = document_check_text(host, reading->visit->rules, line.bytes, line.size);
    if (status == HASHATTN_OK)
        status = reading->read(host, reading->visit, line, reading->own);
    if (status != HASHATTN_BAD_FILE || reading->visit->rules->skip == NULL)
        return status;
    lines_prefix(host, &(struct lines){.number = number});
    return document_skip(host, reading->visit, status);
}

static hashattn_status each_line(struct host *host, const char *path, enum file_source source,
                                 const struct document_visit *visit, line_reader *read, void *own)
{
    struct reading reading = {visit, read, own};
    return file_each_line_in(host, path, source, visit->rules->encoding, read_line, &reading);
}

/* ---- .txt ---------------------------------------------------------------------------------------------- */

static hashattn_status read_plain(struct host *host, const struct document_visit *visit, struct piece line,
                                  void *own)
{
    (void)own;
    return document_use(host, visit, &(struct document){.texts = {line}});
}

hashattn_status document_plain_lines(struct host *host, const char *path, enum file_source source,
                                     const struct document_visit *visit)
{
    return each_line(host, path, source, visit, read_plain, NULL);
}

/* ---- .jsonl -------------------------------------------------------------------------------------------- */

/* True for the text of a whole number beyond 64 bits. */
static bool is_long(const char *text)
{
    size_t digits = strspn(text + (text[0] == '-'), "0123456789");
    return digits >= 19 && text[(text[0] == '-') + digits] == '\0';
}

/* The keys that an object has, in place of the one that is looked for, which `named` says the source of. */
static hashattn_status fail_key(struct host *host, const struct json *root, const char *name,
                                const char *named)
{
    char list[200] = "", shown[SHOWN_SIZE];
    size_t used = 0;
    for (struct json_member m = json_first(root); m.key != NULL && used < sizeof list; m = json_next(m))
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ",
                                 piece_shown((struct piece){m.key, strlen(m.key)}, shown));
    return host_fail(host, HASHATTN_BAD_FILE, "the object has no key '%.100s'%s; there are: %s%s", name,
                     named, used == 0 ? "none" : list, used < sizeof list ? "" : "...");
}

/* A value for a message: the text of a number, which is in `number`, or the kind of value. 1.0 is shown as
   that, because "label is 1; a whole number is needed" would make no sense. */
static const char *kind_of(const struct json *value, char number[JSON_MAX_NUMBER])
{
    struct host unused;
    int64_t whole;
    const char *text = json_text(value);
    host_init(&unused);
    if (text != NULL)
        return *text == '\0' ? "an empty string" : "a string";
    if (json_is_absent(value, ""))
        return "null";
    if (json_get_text(&unused, value, "", number, &text) == HASHATTN_OK) {
        bool is_real =
            text == number && json_get_int(&unused, value, "", INT64_MIN, INT64_MAX, &whole) != HASHATTN_OK;
        if (is_real && number[strspn(number, "-0123456789")] == '\0')
            snprintf(number + strlen(number), JSON_MAX_NUMBER - strlen(number), ".0");
        return text;
    }
    return json_is_list(value) ? "a list" : "an object";
}

/* Each of several labels is a string. */
static hashattn_status check_list(struct host *host, const struct document_rules *rules,
                                  const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        char number[JSON_MAX_NUMBER];
        const char *text = json_text(json_element(list, i));
        FAIL_IF(text == NULL || *text == '\0', host, HASHATTN_BAD_FILE,
                "element %zu of %s is %s; a string that is not empty is needed", i, rules->label,
                kind_of(json_element(list, i), number));
    }
    return HASHATTN_OK;
}

/* number: room for the text of a label that is a number. */
static hashattn_status read_label(struct host *host, const struct json *root,
                                  const struct document_rules *rules, char number[JSON_MAX_NUMBER],
                                  struct piece *label)
{
    const char *text, *name = rules->label;
    const struct json *value = json_at(root, name);
    int64_t whole;
    bool flag;
    label->bytes = json_text(value);
    if (label->bytes == NULL && json_get_text(host, value, "", number, &text) == HASHATTN_OK &&
        (is_long(text) || (rules->label_number && !isnan(json_number(value))) ||
         json_get_int(host, value, "", INT64_MIN, INT64_MAX, &whole) == HASHATTN_OK ||
         json_get_bool(host, value, "", &flag) == HASHATTN_OK))
        label->bytes = text;
    if (value == NULL)
        return fail_key(host, root, name, document_named_by(rules, " (`label_column`)"));
    FAIL_IF(json_is_list(value), host, HASHATTN_BAD_FILE, "%s is a list%s", name,
            rules->recorded || rules->pairs ? "; the run reads one label of a document"
                                            : "; `multi_label` reads several labels of a document");
    FAIL_IF(label->bytes == NULL, host, HASHATTN_BAD_FILE,
            "%s is %s; a string, a %s, true or false%s is needed", name, kind_of(value, number),
            rules->label_number ? "number" : "whole number",
            rules->label_list ? ", or an array of strings" : "");
    label->size = strlen(label->bytes);
    return HASHATTN_OK;
}

static hashattn_status fail_id(struct host *host, const struct document_rules *rules, const char *role)
{
    return host_fail(host, HASHATTN_BAD_FILE, "the key 'id' is both the %s and the id%s", role,
                     document_roles_by(rules));
}

/* A string, or a number, whose text is in `number`; null is none. */
static hashattn_status read_id(struct host *host, const struct json *root, const struct document_rules *rules,
                               char number[JSON_MAX_NUMBER], struct document *document)
{
    const struct json *id = json_at(root, "id");
    const char *text = json_text(id);
    if (json_is_absent(root, "id"))
        return HASHATTN_OK;
    if (strcmp(rules->label, "id") == 0)
        return fail_id(host, rules, "label");
    document->id_is_number = text == NULL && !isnan(json_number(id));
    FAIL_IF(text == NULL && !document->id_is_number, host, HASHATTN_BAD_FILE,
            "id is %s; a string or a number is needed", kind_of(id, number));
    if (document->id_is_number)
        TRY(json_get_text(host, root, "id", number, &text));
    document->id = (struct piece){text, strlen(text)};
    return HASHATTN_OK;
}

static hashattn_status use_json(struct host *host, const struct document_visit *visit,
                                const struct json *root)
{
    const struct document_rules *rules = visit->rules;
    struct document document = {.label = {NULL, 0}};
    const struct json *label = json_at(root, rules->label);
    char number[JSON_MAX_NUMBER], id[JSON_MAX_NUMBER];
    for (size_t i = 0; i < documents_texts(visit); i++) {
        const struct json *text = json_at(root, rules->texts[i]);
        if (text == NULL)
            return fail_key(host, root, rules->texts[i], document_named_by(rules, " (`text_column`)"));
        document.texts[i].bytes = json_text(text);
        FAIL_IF(document.texts[i].bytes == NULL, host, HASHATTN_BAD_FILE, "%s is %s; a string is needed",
                rules->texts[i], kind_of(text, number));
        document.texts[i].size = strlen(document.texts[i].bytes);
    }
    hashattn_status status = HASHATTN_OK;
    if (rules->label_list && json_is_list(label)) {
        TRY(check_list(host, rules, label));
        document.label_json = label;
    } else {
        status = read_label(host, root, rules, number, &document.label);
    }
    if (rules->label_needed)
        TRY(status);
    if (document_ids_pass(rules))
        TRY(read_id(host, root, rules, id, &document));
    return document_use(host, visit, &document);
}

static bool is_blank(struct piece line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.bytes[i] != ' ' && line.bytes[i] != '\t')
            return false;
    return true;
}

static hashattn_status read_json(struct host *host, const struct document_visit *visit, struct piece line,
                                 void *own)
{
    struct json *root;
    (void)own;
    if (is_blank(line))
        return HASHATTN_OK;
    size_t first = 0;
    while (line.bytes[first] == ' ' || line.bytes[first] == '\t')
        first++;
    FAIL_IF(line.bytes[first] == '[', host, HASHATTN_BAD_FILE,
            "a list begins here; .jsonl has an object {...} on each line");
    FAIL_IF(line.bytes[first] != '{', host, HASHATTN_BAD_FILE, "no object {...} of .jsonl; %s",
            file_is_standard(visit->path) ? "`lines` reads plain text"
                                          : "other files have the endings .tsv, .csv and .txt");
    TRY(json_parse(host, line.bytes, line.size, &root));
    hashattn_status status = use_json(host, visit, root);
    json_free(root);
    return status;
}

/* A key has one role; checked before any object is read. If nobody needs the label, the text may have its
 * name. */
static hashattn_status check_keys(struct host *host, const struct document_rules *rules)
{
    const char *text = rules->texts[0], *label = rules->label;
    bool same = rules->label_needed && strcmp(text, label) == 0;
    FAIL_IF(same, host, HASHATTN_BAD_FILE, "the key '%.60s' is both the text and the label%s", text,
            document_roles_by(rules));
    return document_ids_pass(rules) && strcmp(text, "id") == 0 ? fail_id(host, rules, "text") : HASHATTN_OK;
}

hashattn_status document_json_lines(struct host *host, const char *path, enum file_source source,
                                    const struct document_visit *visit)
{
    hashattn_status status = check_keys(host, visit->rules);
    if (status != HASHATTN_OK) {
        host_prefix(host, file_is_standard(path) ? "standard input" : path);
        return status;
    }
    if (visit->rules->columns != NULL)
        snprintf(visit->rules->columns, DOCUMENT_COLUMNS, "label: key '%.60s', text: key '%.60s'",
                 visit->rules->label, visit->rules->texts[0]);
    return each_line(host, path, source, visit, read_json, NULL);
}

/* ---- .tsv ---------------------------------------------------------------------------------------------- */

/* The columns of a file, once its first line has been seen. */
struct tab_columns {
    bool seen, named;
    struct document_columns columns;
};

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

/* True for a default name, which a file without header may ignore. */
static bool is_usual(const struct document_rules *rules)
{
    return strcmp(rules->label, "label") == 0 &&
           strcmp(rules->texts[0], rules->pairs ? "text1" : "text") == 0;
}

/* The first line: a header, or a document of columns in the usual order. */
static hashattn_status see_first(struct host *host, const struct document_visit *visit, struct piece line,
                                 struct tab_columns *tabs)
{
    const struct document_rules *rules = visit->rules;
    struct piece fields[MOST_COLUMNS];
    size_t count = lines_split(line, fields, MOST_COLUMNS);
    tabs->seen = true;
    tabs->named = !rules->first_reading &&
                  (!is_usual(rules) || (!rules->no_header && document_columns_named(rules, fields, count)));
    if (tabs->named)
        return document_columns_find(host, rules, fields, count, &tabs->columns);
    if (rules->columns != NULL)
        snprintf(rules->columns, DOCUMENT_COLUMNS, "label: column 1, text: %s" DOCUMENT_NO_HEADER,
                 rules->pairs ? "the last two columns" : "column 2");
    return HASHATTN_OK;
}

/* Then further tabs belong to that text; otherwise they divide one before it. */
static bool ends_in_text(const struct document_columns *columns)
{
    return columns->texts[0] == columns->count - 1 || columns->texts[1] == columns->count - 1;
}

/* With tabs as separators, a lone tab is an empty document without a label. */
static hashattn_status read_tabs(struct host *host, const struct document_visit *visit, struct piece line,
                                 void *own)
{
    struct tab_columns *tabs = own;
    const struct document_rules *rules = visit->rules;
    struct piece fields[MOST_COLUMNS];
    struct document document = {.label = {NULL, 0}};
    if (line.size == 0)
        return HASHATTN_OK;
    if (!tabs->seen) {
        TRY(see_first(host, visit, line, tabs));
        if (tabs->named && !rules->no_header)
            return HASHATTN_OK;
    }
    if (!tabs->named) {
        TRY(rules->pairs ? split_pair(host, line, &document) : split_text(host, line, &document));
        return document_use(host, visit, &document);
    }
    size_t count =
        lines_split(line, fields, ends_in_text(&tabs->columns) ? tabs->columns.count : MOST_COLUMNS);
    FAIL_IF(count != tabs->columns.count, host, HASHATTN_BAD_FILE, "%zu field%s between tabs, line 1 has %zu",
            count, count == 1 ? "" : "s", tabs->columns.count);
    document_take(visit, &tabs->columns, fields, &document);
    return document_use(host, visit, &document);
}

hashattn_status document_tab_lines(struct host *host, const char *path, enum file_source source,
                                   const struct document_visit *visit)
{
    struct tab_columns tabs = {.seen = false};
    return each_line(host, path, source, visit, read_tabs, &tabs);
}
