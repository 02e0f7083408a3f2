/* Chooses the reader of a file by its ending, and reads folders.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/documents/document_parts.h"

enum format { FORMAT_JSONL, FORMAT_TSV, FORMAT_PLAIN, FORMAT_CSV, FORMAT_FOLDERS };

static enum format format_of(const char *path, const struct document_rules *rules)
{
    static const struct {
        const char *ending;
        enum format format;
    } known[] = {{".tsv", FORMAT_TSV}, {".txt", FORMAT_PLAIN}, {".csv", FORMAT_CSV}};
    const char *ending = strrchr(path, '.');
    if (file_is_directory(path))
        return FORMAT_FOLDERS;
    if (rules->delimiter != '\0' && (ending == NULL || strcmp(ending, ".jsonl") != 0))
        return FORMAT_CSV;
    for (size_t i = 0; ending != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(ending, known[i].ending) == 0)
            return known[i].format;
    return file_is_standard(path) && rules->lines ? FORMAT_PLAIN : FORMAT_JSONL;
}

/* ---- folders ------------------------------------------------------------------------------------------- */

/* label NULL: none. */
static hashattn_status whole_file(struct host *host, const char *path, enum file_source source,
                                  const char *label, const struct document_visit *visit)
{
    char *bytes = NULL;
    size_t size;
    struct encoded encoded = {NULL, 0};
    struct document_visit here = *visit;
    here.path = path;
    hashattn_status status = source == FILE_FOUND ? file_read_regular(host, path, FILE_MOST, &bytes, &size)
                                                  : file_read(host, path, FILE_MOST, &bytes, &size);
    if (status != HASHATTN_OK) /* the message has the path */
        return status == HASHATTN_BAD_FILE && visit->rules->skip != NULL
                   ? visit->rules->skip(host, visit->rules->skip_context)
                   : status;
    struct document document = {.label = {label, label == NULL ? 0 : strlen(label)}};
    status =
        encoded_utf8(host, visit->rules->encoding, (struct piece){bytes, size}, &encoded, &document.texts[0]);
    if (status == HASHATTN_OK)
        status = document_check_text(host, visit->rules, document.texts[0].bytes, document.texts[0].size);
    if (status == HASHATTN_OK)
        status = document_use(host, &here, &document);
    if (status == HASHATTN_BAD_FILE)
        status = document_skip(host, &here, status);
    else if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        host_prefix(host, path);
    encoded_free(host, &encoded);
    memory_free(host, bytes);
    return status;
}

static hashattn_status each_file(struct host *host, const char *folder, const char *label,
                                 const struct document_visit *visit)
{
    const char **names;
    size_t count;
    TRY(file_list(host, folder, ".txt", &names, &count));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        char path[FILE_PATH];
        TRY_DONE(file_join(host, folder, names[i], path, sizeof path));
        status = whole_file(host, path, FILE_FOUND, label, visit);
    }
done:
    memory_free(host, names);
    return status;
}

/* Labels are the names of the folders, in order. Files beside the folders have no label. */
static hashattn_status each_folder(struct host *host, const char *path, const struct document_visit *visit)
{
    const char **names;
    size_t count;
    FAIL_IF(visit->rules->pairs, host, HASHATTN_BAD_FILE, "%s is a directory; pairs are read from files",
            path);
    if (!visit->rules->label_needed)
        TRY(each_file(host, path, NULL, visit));
    if (visit->rules->columns != NULL)
        snprintf(visit->rules->columns, DOCUMENT_COLUMNS, "label: the folder, text: a file");
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
    const struct document_visit of = {rules, visit, context, path};
    enum format format = format_of(path, rules);
    FAIL_IF(format == FORMAT_PLAIN && (rules->pairs || rules->label_needed), host, HASHATTN_BAD_FILE,
            "%s: a .txt file has %s; they are read from .jsonl, .tsv and .csv%s", path,
            rules->pairs ? "no pairs" : "no labels", rules->recorded ? "" : ", or with a `delimiter`");
    switch (format) {
    case FORMAT_FOLDERS:
        return each_folder(host, path, &of);
    case FORMAT_CSV:
        return document_records(host, path, source, rules->delimiter, &of);
    case FORMAT_TSV:
        return document_tab_lines(host, path, source, &of);
    case FORMAT_PLAIN:
        return rules->lines ? document_plain_lines(host, path, source, &of)
                            : whole_file(host, path, source, NULL, &of);
    default:
        return document_json_lines(host, path, source, &of);
    }
}
