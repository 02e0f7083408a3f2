/* A document of a user's file, and how such files are read.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_H
#define TASKS_DOCUMENT_H

#include "tasks/dataset.h"

struct json;         /* io/json.h */
struct unread_files; /* document_unread.h */

/* Valid during the visit. */
struct document {
    struct piece texts[2];         /* only pairs use the second */
    struct piece label;            /* label.bytes NULL: no label */
    const struct json *label_json; /* the label of .jsonl if it is an array; otherwise NULL */
    struct piece id;               /* of its line or record; id.bytes NULL: none */
    bool id_is_number;             /* a number of .jsonl */
    const char *file;              /* "-": standard input; NULL: a text in memory */
};

enum { DOCUMENT_COLUMNS = 200 };
#define DOCUMENT_NO_HEADER ", without a header" /* the end of such words about a .tsv file */

struct document_rules {
    bool pairs;
    bool label_needed; /* a document without label, or with one that no class can have, is an error */
    bool label_list;   /* a label of .jsonl may be an array */
    bool label_number; /* a label of .jsonl may be any number; otherwise only a whole one */
    const char *texts[2], *label; /* keys of .jsonl and columns */
    char delimiter;               /* of records; 0: by the ending */
    enum text_encoding encoding;
    bool no_header; /* the first line is a document; columns are in the order label, texts, or texts and label
                       are their numbers from 1 */
    bool first_reading; /* as runs of earlier versions: no .tsv has a header, and commas separate the columns
                           of .csv */
    bool recorded;      /* they are a run's, so that messages name no option */
    bool lines;         /* of a .txt file each line is a document */
    struct unread_files *unread; /* gets what folders hold beside documents; or NULL */
    char *columns; /* (DOCUMENT_COLUMNS) receives what was read as text and label, in words; or NULL */
    /* Gets a bad line, with file and line in the host's message; reading then goes on after it. NULL: it is
       an error. */
    hashattn_status (*skip)(struct host *host, void *context);
    void *skip_context;
};

typedef hashattn_status document_visitor(struct host *host, void *context, const struct document *document);

#endif
