/* Bounded reads of whole files, logs and directories. file_writer.h writes files. Messages name the path and
   the system's reason. A missing or unreadable file is BAD_FILE; a failed write is NO_DISK.
   The rule of what may be opened is here. Only a path that the user typed may be a pipe, a device or "-". A
   file that is found in a folder, or that another file names, must be a regular one. A name in a file stays
   inside the folder (file_join_inside); only the data and the stored model that a run records may lie
   anywhere. The files of a folder may be links, because caches of models and data sets are made of them; a
   path of several parts in a file must not leave the folder through one. A wait for a pipe or device ends
   with INTERRUPTED at a signal whose handler was installed without SA_RESTART.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/host.h"

/* Fails with "PATH: cannot WHAT: the system's reason"; path NULL: the caller adds it. */
hashattn_status file_fail(struct host *host, hashattn_status status, const char *path, const char *what,
                          int error);
/* Fails with "PATH: is a pipe, a regular file is needed", or another kind by mode. */
hashattn_status file_fail_kind(struct host *host, hashattn_status status, const char *path, mode_t mode);
/* True if the path is "-": standard input or output. */
bool file_is_standard(const char *path);

/* Who named a file: the user, or a folder or another file. */
enum file_source { FILE_TYPED, FILE_FOUND };
/* Opens a file for reading. FILE_TYPED: "-" is standard input, and pipes and devices are opened; FILE_FOUND:
   a regular file only. *file is -1 on failure. */
hashattn_status file_open(struct host *host, const char *path, enum file_source source, int *file);
/* open(2) with flags that let it wait for a network disk only (O_NONBLOCK, O_DIRECTORY): a signal does not
   end the call. */
int file_open_now(const char *path, int flags);
/* Reads up to `most` bytes from what file_open opened; *got is 0 at the end. path is for the message, as in
   file_fail. */
hashattn_status file_read_some(struct host *host, const char *path, int file, void *bytes, size_t most,
                               size_t *got);
/* A path that a run recorded for its data, which may lie anywhere: BAD_FILE unless it is a regular file or a
   directory. */
hashattn_status file_check_recorded(struct host *host, const char *path);

/* Reads a whole file and appends a NUL that *size does not count; the caller frees it with memory_free. A
   file of more than `limit` bytes is BAD_FILE. path "-" reads standard input. */
hashattn_status file_read(struct host *host, const char *path, size_t limit, char **bytes, size_t *size);
/* The same for a regular file: "-" is an ordinary name, and a pipe or device is BAD_FILE at once. For every
   file that the user did not type. */
hashattn_status file_read_regular(struct host *host, const char *path, size_t limit, char **bytes,
                                  size_t *size);
/* Reads up to `most` bytes from the start of a regular file, into a block like that of file_read. *size: of
   the whole file. */
hashattn_status file_read_start(struct host *host, const char *path, size_t most, char **bytes, size_t *count,
                                size_t *size);
/* Opens a regular file for reading; *size is its size in bytes. BAD_FILE: there is no such file; *file is
   -1. */
hashattn_status file_open_regular(struct host *host, const char *path, int *file, size_t *size);

/* Appends one line to a log, which a crash may cut at any byte (readers skip a broken line). A line that a
   crash cut stays a separate line; a write that fails half way is undone. NO_DISK: the log is a link, a pipe
   or a device. */
hashattn_status file_append_line(struct host *host, const char *path, const char *line);

bool file_exists(const char *path);
bool file_is_directory(const char *path);
/* The names in a directory that end in `ending` ("": all of them), without those that begin with a dot,
   sorted by bytes. One block holds the list and the names; the caller frees it with memory_free. */
hashattn_status file_list(struct host *host, const char *directory, const char *ending, const char ***names,
                          size_t *count);
/* Makes one directory. INVALID if it exists, unless may_exist: a run is never overwritten. */
hashattn_status file_make_directory(struct host *host, const char *path, bool may_exist);
/* Removes one file, if it is there. Reports no errors: for cleaning up after a failure. */
void file_remove(const char *path);
/* Removes the named files from a directory, names ended by NULL, and the directory if it is then empty.
   Reports no errors and keeps the host's message: for cleaning up after a failure. */
void file_remove_directory(struct host *host, const char *directory, const char *const *names);
/* Bytes of the longest path that Linux opens, with its NUL. */
enum { FILE_PATH = 4096 };
/* Writes "directory/name" to text; INVALID if it does not fit. */
hashattn_status file_join(struct host *host, const char *directory, const char *name, char *text,
                          size_t size);
/* As file_join, for a name that stands in a file. BAD_FILE: the name is empty or absolute, has a part "..",
   or leads out of the directory through a link. */
hashattn_status file_join_inside(struct host *host, const char *directory, const char *name, char *text,
                                 size_t size);

#endif
