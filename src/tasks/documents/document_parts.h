/* What the readers of documents (document_files.h) share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_PARTS_H
#define TASKS_DOCUMENT_PARTS_H

#include "tasks/documents/document.h"

/* What happens to every document of a file. */
struct document_visit {
    const struct document_rules *rules;
    document_visitor *use;
    void *context;
    const char *path;
};

static inline size_t documents_texts(const struct document_visit *visit)
{
    return visit->rules->pairs ? 2 : 1;
}

/* Training passes no ids on, so `id` is a name like any other there. */
static inline bool document_ids_pass(const struct document_rules *rules)
{
    return !rules->label_needed;
}

/* A single label: BAD_FILE if it is empty, too long or holds NUL. */
hashattn_status document_check_label(struct host *host, struct piece label);
/* Checks the label, if a single one is needed, and passes the document on. */
hashattn_status document_use(struct host *host, const struct document_visit *visit,
                             struct document *document);
/* utf8_check; the message says how other encodings are read. */
hashattn_status document_check_text(struct host *host, const struct document_rules *rules, const char *bytes,
                                    size_t size);
/* What a message adds to the name of a column or key that is missing. option: as in " (`text_column`)". */
const char *document_named_by(const struct document_rules *rules, const char *option);
/* What a message about a column or key with two roles adds. */
const char *document_roles_by(const struct document_rules *rules);
/* After BAD_FILE with the line in the message: prefixes the path and asks the rules whether to go on. */
hashattn_status document_skip(struct host *host, const struct document_visit *visit, hashattn_status status);

/* Places of the fields that are read; SIZE_MAX: none. */
struct document_columns {
    size_t count, texts[2], label, id;
};
/* True if `fields` name the columns of the rules, in any case of letters: the text, and the label if it is
   needed or if there are several fields. */
bool document_columns_named(const struct document_rules *rules, const struct piece *fields, size_t count);
/* Finds the columns by the names in the first line, or by number without a header. BAD_FILE: a column is
   missing or there twice. */
hashattn_status document_columns_find(struct host *host, const struct document_rules *rules,
                                      const struct piece *fields, size_t count,
                                      struct document_columns *columns);
/* Sets the texts, the label and the id of a document from the fields of a record. */
void document_take(const struct document_visit *visit, const struct document_columns *columns,
                   const struct piece *fields, struct document *document);

/* document_lines.c: .jsonl and .tsv; document_records.c: .csv and other delimiters. */
hashattn_status document_json_lines(struct host *host, const char *path, enum file_source source,
                                    const struct document_visit *visit);
hashattn_status document_tab_lines(struct host *host, const char *path, enum file_source source,
                                   const struct document_visit *visit);
hashattn_status document_plain_lines(struct host *host, const char *path, enum file_source source,
                                     const struct document_visit *visit);
hashattn_status document_records(struct host *host, const char *path, enum file_source source, char delimiter,
                                 const struct document_visit *visit);

#endif
