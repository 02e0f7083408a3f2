/* Writers that replace a file in one step, so that whoever looks finds the old file or the new one and never
   a half. Messages name the path and the system's reason; a failing write, fsync or rename is NO_DISK.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_WRITER_H
#define BASE_FILE_WRITER_H

#include <stdbool.h>

#include "base/host.h"

/* A writer of PATH.tmp, which file_commit flushes, fsyncs, renames to PATH and fsyncs the directory of.
   Errors stick: write on, and commit reports the first. path "-" writes standard output, and a path that is a
   device or a pipe is written as it is: neither can be replaced. */
struct file_writer {
    void *stream; /* FILE *; NULL after commit and abandon */
    char path[4096];
    bool plain; /* no temporary file */
    int error;  /* errno of the first failure */
};
hashattn_status file_open_writer(struct host *host, const char *path, struct file_writer *writer);
void file_write(struct file_writer *writer, const void *bytes, size_t size);
void file_print(struct file_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
hashattn_status file_commit(struct host *host, struct file_writer *writer);
/* Drops what was written; PATH stays as it was. Harmless after commit. */
void file_abandon(struct file_writer *writer);

#endif
