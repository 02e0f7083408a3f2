/* Files, carefully: bounded whole-file reads, and writers that replace a file in one step, so that whoever
   looks finds the old file or the new one and never a half. Messages name the path and the system's reason.
   A missing or unreadable file is BAD_FILE; a failing write, fsync or rename is NO_DISK.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"

/* The whole file, memory_free'd by the caller, with one NUL after its end that is not counted. A file of more
   than `limit` bytes is refused. `path` "-" reads standard input. */
hashattn_status file_read(struct host *host, const char *path, size_t limit, char **bytes, size_t *size);

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

/* Appends one line to a log that may be cut at any byte by a crash (readers skip a broken line). What a crash
   cut stays a line of its own; a write that fails half way is taken back. */
hashattn_status file_append_line(struct host *host, const char *path, const char *line);

bool file_exists(const char *path);
/* Makes one directory; existing is INVALID (a run is never overwritten) unless may_exist. */
hashattn_status file_make_directory(struct host *host, const char *path, bool may_exist);
/* Removes these files of a directory, names ended by NULL, and then the directory if it is empty. Says
   nothing: for whoever clears up after a failure that is told. */
void file_remove_directory(struct host *host, const char *directory, const char *const *names);
/* "directory/name" into text; INVALID when it does not fit. */
hashattn_status file_join(struct host *host, const char *directory, const char *name, char *text,
                          size_t size);

#endif
