/* The documents of a user's file, one after another, so that memory does not grow with the file.
   .jsonl: {"text": "...", "label": "..."} on each line; for pairs "text1" and "text2"; "id" is optional.
   .tsv: label, tab, text on each line; for pairs label, text, text, or label, name, name, text, text. A first
   line with the names of the columns, in any case of letters, orders them otherwise.
   .csv: a header and records (io/csv.h), with columns named as the keys of .jsonl; other columns are ignored.
   .txt: one document without label, or with `lines` one on each line.
   A directory with label_needed: LABEL/NAME.txt, one document per file, as in aclImdb, without the folder
   `unsup`. Otherwise all files of these endings in it and in its folders; others are counted (rules->unread).
   With a delimiter every file but .jsonl is read as records, in a directory .csv and .tsv only.
   Endings are read in any case of letters. Names that begin with a dot are hidden.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_FILES_H
#define TASKS_DOCUMENT_FILES_H

#include "tasks/documents/document.h"

/* Calls visit for every document of a file ("-": JSONL) until a call fails. Messages
   begin with the path and the line. BAD_FILE: not one of the formats above. */
hashattn_status document_file_read(struct host *host, const char *path, enum file_source source,
                                   const struct document_rules *rules, document_visitor *visit,
                                   void *context);

#endif
