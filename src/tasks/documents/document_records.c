/* Records of .csv files, and of any file with a delimiter.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "io/csv.h"
#include "tasks/documents/document_parts.h"

/* The line on which the last record begins. */
static void prefix_line(struct host *host, const struct csv *csv)
{
    char line[40];
    snprintf(line, sizeof line, "line %zu", csv->line);
    host_prefix(host, line);
}

/* The first record: a header or, without one, a document. */
static hashattn_status read_first(struct host *host, struct csv *csv, const struct document_rules *rules,
                                  struct document_columns *columns)
{
    do
        TRY(csv_next(host, csv));
    while (csv->empty);
    FAIL_IF(csv->count == 0, host, HASHATTN_BAD_FILE, "the file is empty%s",
            rules->no_header ? "" : ", a header is needed");
    hashattn_status status = document_columns_find(host, rules, csv->fields, csv->count, columns);
    if (status == HASHATTN_BAD_FILE)
        prefix_line(host, csv);
    return status;
}

static hashattn_status use_record(struct host *host, const struct document_visit *visit,
                                  const struct csv *csv, const struct document_columns *columns)
{
    struct document document = {.label = {NULL, 0}};
    if (csv->empty)
        return HASHATTN_OK;
    FAIL_IF(csv->count != columns->count, host, HASHATTN_BAD_FILE, "%zu field%s, %s has %zu", csv->count,
            csv->count == 1 ? "" : "s", visit->rules->no_header ? "the first row" : "the header",
            columns->count);
    for (size_t i = 0; i < csv->count; i++)
        TRY(document_check_text(host, visit->rules, csv->fields[i].bytes, csv->fields[i].size));
    document_take(visit, columns, csv->fields, &document);
    return document_use(host, visit, &document);
}

/* The record that csv_next has read, whose status is `read`. */
static hashattn_status take_record(struct host *host, const struct document_visit *visit, struct csv *csv,
                                   const struct document_columns *columns, hashattn_status read)
{
    bool skips = visit->rules->skip != NULL;
    hashattn_status status = read;
    if (read == HASHATTN_OK)
        status = use_record(host, visit, csv, columns);
    if (read == HASHATTN_OK && status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        prefix_line(host, csv);
    if (status != HASHATTN_BAD_FILE || !skips)
        return status;
    TRY(document_skip(host, visit, status));
    return read == HASHATTN_OK ? HASHATTN_OK : csv_skip_line(host, csv);
}

hashattn_status document_records(struct host *host, const char *path, enum file_source source, char delimiter,
                                 const struct document_visit *visit)
{
    struct csv csv;
    struct document_columns columns;
    TRY(csv_open(host, path, source, &csv));
    csv.blocks.encoding = visit->rules->encoding;
    if (visit->rules->first_reading)
        delimiter = ',';
    hashattn_status status = csv_delimit(host, &csv, delimiter, &delimiter);
    if (status == HASHATTN_OK)
        status = read_first(host, &csv, visit->rules, &columns);
    if (status == HASHATTN_OK && visit->rules->no_header)
        status = take_record(host, visit, &csv, &columns, HASHATTN_OK);
    while (status == HASHATTN_OK) {
        hashattn_status read = csv_next(host, &csv);
        if (read == HASHATTN_OK && csv.count == 0)
            break;
        status = take_record(host, visit, &csv, &columns, read);
    }
    csv_close(host, &csv);
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        host_prefix(host, file_is_standard(path) ? "standard input" : path);
    return status;
}
