/* Files, carefully: bounded reads of whole files, logs, directories. Files are written by file_writer.h.
   Messages name the path and the system's reason. A missing or unreadable file is BAD_FILE; a failing write
   is NO_DISK. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/host.h"

/* Fails with "PATH: cannot WHAT: the system's reason". */
hashattn_status file_fail(struct host *host, hashattn_status status, const char *path, const char *what,
                          int error);
/* Fails with "PATH: is a pipe, a regular file is needed", or what else the mode says. */
hashattn_status file_fail_kind(struct host *host, hashattn_status status, const char *path, mode_t mode);
/* Whether the path is "-", which stands for standard input or output. */
bool file_is_standard(const char *path);

/* The whole file, memory_free'd by the caller, with one NUL after its end that is not counted. A file of more
   than `limit` bytes is refused. `path` "-" reads standard input. */
hashattn_status file_read(struct host *host, const char *path, size_t limit, char **bytes, size_t *size);
/* The same of a regular file: "-" is a name like others, and a pipe or a device is BAD_FILE and not waited
   for. For files of ours, which nobody has a reason to send through a pipe. */
hashattn_status file_read_regular(struct host *host, const char *path, size_t limit, char **bytes,
                                  size_t *size);
/* The first bytes of a regular file, `most` of them where it has as many, in a block as file_read's; *size:
   of the whole file. */
hashattn_status file_read_start(struct host *host, const char *path, size_t most, char **bytes, size_t *count,
                                size_t *size);
/* A regular file, open for reading, and its size in bytes. BAD_FILE: there is none; *file is -1. */
hashattn_status file_open_regular(struct host *host, const char *path, int *file, size_t *size);

/* Appends one line to a log that may be cut at any byte by a crash (readers skip a broken line). What a crash
   cut stays a line of its own; a write that fails half way is taken back. A link, a pipe or a device in the
   place of the log is NO_DISK. */
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
