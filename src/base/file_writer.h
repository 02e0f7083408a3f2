/* Writers that replace a file atomically: a reader finds the old file or the new one, never a part. Writes go
   to a new temporary file in the same directory, "NAME.tmp-" and eight hexadecimal digits. Commit flushes and
   fsyncs it, renames it and fsyncs the directory. A signal does not end a write, except to a pipe or
   device, where its handler was installed without SA_RESTART: that is INTERRUPTED. Errors stick: later writes
   do nothing, and commit reports the first error. Messages name the path and the system's reason; a failed
   write, fsync or rename is NO_DISK. Do not move a writer between opening and commit or abandon: it is in its
   host's list of unfinished writers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_WRITER_H
#define BASE_FILE_WRITER_H

#include <stdbool.h>

#include "base/host.h"

struct file_writer {
    bool open;            /* until commit or abandon */
    int file;             /* descriptor */
    size_t used;          /* bytes in the buffer */
    char buffer[8192];    /* what was not passed to the system yet */
    char path[4096];      /* of the file, links resolved */
    char temporary[4096]; /* "": the path is written in place */
    int error;            /* errno of the first failure */
    struct host *host;    /* of a temporary file: the host that lists it */
    struct file_writer *next;
};

/* For a file that the user named: "-" is standard output, as is every path of it, such as /dev/stdout; a
   link's target is replaced, and a pipe or device, which cannot be replaced, is written in place. */
hashattn_status file_open_writer(struct host *host, const char *path, struct file_writer *writer);
/* For a file in a run, which other users may be able to write: a link, pipe or device of this name is
   replaced and never opened. */
hashattn_status file_open_replacement(struct host *host, const char *path, struct file_writer *writer);

void file_write(struct file_writer *writer, const void *bytes, size_t size);
/* At most as many bytes as the buffer has at once. */
void file_print(struct file_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Overwrites the first `size` bytes, which were written before; for a writer of file_open_replacement. */
void file_write_first(struct file_writer *writer, const void *bytes, size_t size);
/* NO_DISK with the path and the reason if an error was noted; the caller can stop early. */
hashattn_status file_writer_status(struct host *host, const struct file_writer *writer);
hashattn_status file_commit(struct host *host, struct file_writer *writer);
/* Drops what was written to a file; an old file stays as it was. Standard output, a pipe and a device get
   what was written so far. Does nothing after commit. */
void file_abandon(struct file_writer *writer);

/* Removes temporary files of the named files (ended by NULL) that killed writers left in a directory. Only
   for the sole writer of that directory. */
void file_remove_leftovers(const char *directory, const char *const *names);

/* Removes the temporary files of all unfinished writers, which then cannot be committed. For the handler of a
   signal that ends the program, on the thread that uses the host: async-signal-safe. */
void file_remove_unfinished(const struct host *host);

#endif
