/* Chooses the reader of a file by its ending, and reads folders.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_files.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/utf8.h"
#include "tasks/documents/document_parts.h"
#include "tasks/documents/document_unread.h"

enum format { FORMAT_JSONL, FORMAT_TSV, FORMAT_PLAIN, FORMAT_CSV, FORMAT_FOLDERS };

/* By the ending, in any case of letters; false: it is not known. */
static bool ending_says(const char *path, enum format *format)
{
    static const struct {
        const char *ending;
        enum format format;
    } known[] = {
        {".jsonl", FORMAT_JSONL}, {".tsv", FORMAT_TSV}, {".txt", FORMAT_PLAIN}, {".csv", FORMAT_CSV}};
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(ending, known[i].ending) == 0) {
            *format = known[i].format;
            return true;
        }
    return false;
}

static enum format format_of(const char *path, const struct document_rules *rules)
{
    enum format format;
    bool known = ending_says(path, &format);
    if (file_is_directory(path))
        return FORMAT_FOLDERS;
    if (rules->delimiter != '\0' && !(known && format == FORMAT_JSONL))
        return FORMAT_CSV;
    if (known)
        return format;
    return file_is_standard(path) && rules->lines ? FORMAT_PLAIN : FORMAT_JSONL;
}

/* ---- one file ----------------------------------------------------------------------------------------- */

/* label NULL: none. */
static hashattn_status whole_file(struct host *host, enum file_source source, const char *label,
                                  const struct document_visit *visit)
{
    const char *path = visit->path;
    char *bytes = NULL;
    size_t size;
    struct encoded encoded = {NULL, 0};
    hashattn_status status = source == FILE_FOUND ? file_read_regular(host, path, FILE_MOST, &bytes, &size)
                                                  : file_read(host, path, FILE_MOST, &bytes, &size);
    if (status != HASHATTN_OK) /* the message has the path */
        return status == HASHATTN_BAD_FILE && visit->rules->skip != NULL
                   ? visit->rules->skip(host, visit->rules->skip_context)
                   : status;
    struct document document = {.label = {label, label == NULL ? 0 : strlen(label)}};
    status = utf8_check_start(host, bytes, size);
    if (status == HASHATTN_OK)
        status = encoded_utf8(host, visit->rules->encoding, (struct piece){bytes, size}, &encoded,
                              &document.texts[0]);
    document.texts[0] = piece_unmarked(document.texts[0]);
    if (status == HASHATTN_OK)
        status = document_check_text(host, visit->rules, document.texts[0].bytes, document.texts[0].size);
    if (status == HASHATTN_OK)
        status = document_use(host, visit, &document);
    if (status == HASHATTN_BAD_FILE)
        status = document_skip(host, visit, status);
    else if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        host_prefix(host, path);
    encoded_free(host, &encoded);
    memory_free(host, bytes);
    return status;
}

static hashattn_status read_as(struct host *host, enum format format, enum file_source source,
                               const char *label, const struct document_visit *of)
{
    const struct document_rules *rules = of->rules;
    switch (format) {
    case FORMAT_CSV:
        return document_records(host, of->path, source, rules->delimiter, of);
    case FORMAT_TSV:
        return document_tab_lines(host, of->path, source, of);
    case FORMAT_PLAIN:
        return rules->lines ? document_plain_lines(host, of->path, source, of)
                            : whole_file(host, source, label, of);
    default:
        return document_json_lines(host, of->path, source, of);
    }
}

/* ---- folders ------------------------------------------------------------------------------------------- */

/* Training reads only .txt, because the folder is the label. A delimiter is for tables. */
static hashattn_status read_found(struct host *host, const char *path, const char *label,
                                  const struct document_visit *visit)
{
    const struct document_rules *rules = visit->rules;
    struct document_visit of = *visit;
    enum format format;
    if (!ending_says(path, &format) || (format != FORMAT_PLAIN && rules->label_needed)) {
        unread_add(rules->unread, path, false);
        return HASHATTN_OK;
    }
    if (format == FORMAT_TSV && rules->delimiter != '\0')
        format = FORMAT_CSV;
    of.path = path;
    return read_as(host, format, FILE_FOUND, label, &of);
}

typedef hashattn_status entry_reader(struct host *host, const char *path, const char *label,
                                     const struct document_visit *visit);

/* Reads the files of a folder, whose label is `label`, or the folders in it, whose labels are their names. */
static hashattn_status each_entry(struct host *host, const char *folder, const char *label, bool folders,
                                  const struct document_visit *visit, entry_reader *read)
{
    const char **names;
    size_t count;
    TRY(file_list(host, folder, "", &names, &count));
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        char path[FILE_PATH];
        TRY_DONE(file_join(host, folder, names[i], path, sizeof path));
        if (file_is_directory(path) == folders)
            status = read(host, path, folders ? names[i] : label, visit);
    }
done:
    memory_free(host, names);
    return status;
}

static hashattn_status count_folder(struct host *host, const char *path, const char *label,
                                    const struct document_visit *visit)
{
    (void)host, (void)label;
    unread_add(visit->rules->unread, path, true);
    return HASHATTN_OK;
}

/* A folder whose name is the label of its files. Folders in it are not read. */
static hashattn_status read_label(struct host *host, const char *path, const char *label,
                                  const struct document_visit *visit)
{
    if (visit->rules->label_needed && strcmp(label, "unsup") == 0)
        return HASHATTN_OK; /* the documents of aclImdb without a label */
    TRY(each_entry(host, path, label, false, visit, read_found));
    return each_entry(host, path, label, true, visit, count_folder);
}

/* Files beside the folders have no label. */
static hashattn_status each_folder(struct host *host, const char *path, const struct document_visit *visit)
{
    FAIL_IF(visit->rules->pairs, host, HASHATTN_BAD_FILE, "%s is a directory; pairs are read from files",
            path);
    if (visit->rules->columns != NULL)
        snprintf(visit->rules->columns, DOCUMENT_COLUMNS, "label: the folder, text: a file");
    if (!visit->rules->label_needed)
        TRY(each_entry(host, path, NULL, false, visit, read_found));
    return each_entry(host, path, NULL, true, visit, read_label);
}

hashattn_status document_file_read(struct host *host, const char *path, enum file_source source,
                                   const struct document_rules *rules, document_visitor *visit, void *context)
{
    const struct document_visit of = {rules, visit, context, path};
    enum format format = format_of(path, rules);
    FAIL_IF(format == FORMAT_PLAIN && (rules->pairs || rules->label_needed), host, HASHATTN_BAD_FILE,
            "%s: a .txt file has %s; they are read from .jsonl, .tsv and .csv%s", path,
            rules->pairs ? "no pairs" : "no labels", rules->recorded ? "" : ", or with a `delimiter`");
    return format == FORMAT_FOLDERS ? each_folder(host, path, &of) : read_as(host, format, source, NULL, &of);
}
