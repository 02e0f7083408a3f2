/* The files and folders of a folder of documents that are not read, for a message.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_UNREAD_H
#define TASKS_DOCUMENT_UNREAD_H

#include <stdbool.h>

#include "base/host.h"

enum { UNREAD_SHOWN = 240 }; /* bytes for their names */

/* Starts as zeros. */
struct unread_files {
    size_t count;
    char names[UNREAD_SHOWN]; /* of the first ones */
    bool full;                /* the next name did not fit */
};

/* Counts a file or a folder. unread NULL: nobody asks. */
void unread_add(struct unread_files *unread, const char *path, bool is_folder);
/* Puts a sentence about them before the note of the host, if there are any. */
void unread_note(struct host *host, const struct unread_files *unread);
/* The same after the message of a failure, whose status it returns. unread may be NULL. */
hashattn_status unread_explain(struct host *host, const struct unread_files *unread, hashattn_status status);

#endif
