/* The documents of a user's file, one after another, so that memory does not grow with the file. All files
   are UTF-8.
   .jsonl: {"text": "...", "label": "..."} on each line; for pairs "text1" and "text2".
   .tsv: label, tab, text on each line; for pairs label, text, text, or label, name, name, text, text.
   .csv: a header and records (io/csv.h), with columns named as the keys of .jsonl; other columns are ignored.
   .txt: one document on each line, without label.
   A directory: LABEL/NAME.txt, one document per file, as in aclImdb; a folder `unsup` is ignored.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_FILES_H
#define TASKS_DOCUMENT_FILES_H

#include "tasks/dataset.h"

/* Valid during the visit. */
struct document {
    struct piece texts[2]; /* only pairs use the second */
    struct piece label;    /* label.bytes NULL: no label */
};

struct document_rules {
    bool pairs;
    bool label_needed; /* a document without label, or with one that no class can have, is an error */
    const char *texts[2], *label; /* keys of .jsonl and columns of .csv */
};

typedef hashattn_status document_visitor(struct host *host, void *context, const struct document *document);
/* Calls visit for every document of a file ("-": JSONL) until a call fails. Messages
   begin with the path and the line. BAD_FILE: not one of the formats above. */
hashattn_status document_file_read(struct host *host, const char *path, enum file_source source,
                                   const struct document_rules *rules, document_visitor *visit,
                                   void *context);

#endif
