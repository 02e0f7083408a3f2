/* Checks of labels and texts.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_parts.h"

#include <string.h>

#include "base/file.h"
#include "io/utf8.h"

enum { LONGEST_LABEL = 200 }; /* bytes; a label appears in messages and in config.json */

hashattn_status document_check_label(struct host *host, struct piece label)
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

hashattn_status document_use(struct host *host, const struct document_visit *visit, struct document *document)
{
    if (visit->rules->label_needed && !visit->rules->label_list)
        TRY(document_check_label(host, document->label));
    document->file = visit->path;
    return visit->use(host, visit->context, document);
}

hashattn_status document_check_text(struct host *host, const struct document_rules *rules, const char *bytes,
                                    size_t size)
{
    hashattn_status status = utf8_check(host, bytes, size);
    if (status != HASHATTN_OK)
        host_suffix(host, rules->recorded ? "; the run reads UTF-8 (iconv -t UTF-8 converts other texts)"
                                          : "; other texts need `encoding` latin-1 or windows-1252");
    return status;
}

const char *document_named_by(const struct document_rules *rules, const char *option)
{
    return rules->pairs ? "" : rules->recorded ? ", the name in the training file" : option;
}

const char *document_roles_by(const struct document_rules *rules)
{
    if (rules->pairs || rules->recorded)
        return "";
    return rules->label_needed ? " (`text_column`, `label_column`)" : " (`text_column`)";
}

hashattn_status document_skip(struct host *host, const struct document_visit *visit, hashattn_status status)
{
    host_prefix(host, file_is_standard(visit->path) ? "standard input" : visit->path);
    return visit->rules->skip == NULL ? status : visit->rules->skip(host, visit->rules->skip_context);
}
