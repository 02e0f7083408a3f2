/* Writers that replace a file in one step: whoever looks finds the old file or the new one, never a half.
   What is written goes to a temporary file in the same directory, "NAME.tmp-" and eight hexadecimal digits,
   which did not exist before. Committing flushes and fsyncs it, renames it and fsyncs the directory. Errors
   stick: write on, and the commit reports the first. Messages name the path and the system's reason; a
   failing write, fsync or rename is NO_DISK. A writer stays where it is from opening to commit or abandon,
   since its host has a list of those under way. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_WRITER_H
#define BASE_FILE_WRITER_H

#include "base/host.h"

struct file_writer {
    void *stream;         /* FILE *; NULL after commit and abandon */
    char path[4096];      /* where the file goes; a link in it has been resolved */
    char temporary[4096]; /* "": the path is written as it is */
    int error;            /* errno of the first failure */
    struct host *host;    /* of a temporary file: in whose list it is */
    struct file_writer *next;
};

/* For a file that the user named: "-" is standard output, a link leads to the file that is replaced, and a
   pipe or a device, which cannot be replaced, is written as it is. */
hashattn_status file_open_writer(struct host *host, const char *path, struct file_writer *writer);
/* For a file in a directory of ours, which others may write too: a link, a pipe or a device of this name is
   replaced by the new file and never opened. */
hashattn_status file_open_replacement(struct host *host, const char *path, struct file_writer *writer);

void file_write(struct file_writer *writer, const void *bytes, size_t size);
void file_print(struct file_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
hashattn_status file_commit(struct host *host, struct file_writer *writer);
/* Drops what was written; the file stays as it was. Harmless after commit. */
void file_abandon(struct file_writer *writer);

/* Removes what writers that were killed left of these files of a directory, names ended by NULL; for whoever
   alone writes there. */
void file_remove_leftovers(const char *directory, const char *const *names);

/* Removes the temporary files of all writers under way, none of which can be committed after it. For the
   handler of a signal that ends the program: async-signal-safe, in the thread that uses the host. */
void file_remove_unfinished(const struct host *host);

#endif
