/* The names of documents that were read, in order, until their results are passed on.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_NAMES_H
#define TASKS_DOCUMENT_NAMES_H

#include "tasks/task.h"

struct named {
    char *file, *id; /* of one block, owned by `file`; id NULL: none */
    bool id_is_number;
};

/* Starts as zeros. */
struct document_names {
    struct named *list; /* (count) */
    size_t count, capacity;
};

hashattn_status document_names_keep(struct host *host, struct document_names *names,
                                    const struct document_name *name);
/* Forgets the first `count` names. */
void document_names_drop(struct host *host, struct document_names *names, size_t count);
void document_names_free(struct host *host, struct document_names *names);
/* The file of a name for people: NULL for standard input. */
const char *document_names_file(const struct named *named);

#endif
