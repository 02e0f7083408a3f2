/* Writers with POSIX calls and a buffer: a stream of the C library loses bytes when a signal interrupts a
   write. Each costs one fsync of the file and one of its directory: milliseconds, a few times a minute.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signal_mask.h"

enum {
    NAME_KEPT = 100, /* bytes of the file's name kept in the temporary name, which has a longest length */
    ENDING = 14,     /* ".tmp-", eight digits and a NUL */
    MOST_TRIES = 100,
};

/* ---- names --------------------------------------------------------------------------------------------- */

static int take_path(const char *path, struct file_writer *writer)
{
    size_t length = strlen(path);
    if (length == 0)
        return ENOENT;
    if (length + ENDING > sizeof writer->path)
        return ENAMETOOLONG;
    memcpy(writer->path, path, length + 1);
    return 0;
}

/* Resolves a link, so that its target is replaced and not the link, which may be /dev/stdout. */
static int resolve(const char *path, struct file_writer *writer)
{
    struct stat facts;
    if (lstat(path, &facts) != 0 || !S_ISLNK(facts.st_mode))
        return take_path(path, writer);
    _Static_assert(sizeof writer->path >= PATH_MAX, "realpath fills up to PATH_MAX bytes");
    if (realpath(path, writer->path) == NULL)
        return errno;
    return strlen(writer->path) + ENDING > sizeof writer->path ? ENAMETOOLONG : 0;
}

/* Makes a random name in the file's directory. */
static int name_temporary(struct file_writer *writer)
{
    uint32_t chance;
    if (getentropy(&chance, sizeof chance) != 0)
        return errno;
    const char *slash = strrchr(writer->path, '/'), *name = slash == NULL ? writer->path : slash + 1;
    int kept = (int)(name - writer->path) + (int)strnlen(name, NAME_KEPT);
    snprintf(writer->temporary, sizeof writer->temporary, "%.*s.tmp-%08x", kept, writer->path, chance);
    return 0;
}

/* ---- unfinished writers -------------------------------------------------------------------------------- */

/* A signal handler that runs in between finds a valid list, with or without the writer. */
static void enter(struct host *host, struct file_writer *writer)
{
    writer->host = host;
    writer->next = host->unfinished;
    atomic_signal_fence(memory_order_seq_cst);
    host->unfinished = writer;
}

static void leave(struct file_writer *writer)
{
    struct file_writer **at = &writer->host->unfinished;
    while (*at != writer)
        at = &(*at)->next;
    *at = writer->next;
}

static void drop_temporary(struct file_writer *writer)
{
    unlink(writer->temporary);
    leave(writer);
}

void file_remove_unfinished(const struct host *host)
{
    for (const struct file_writer *writer = host->unfinished; writer != NULL; writer = writer->next)
        unlink(writer->temporary);
}

/* True if `name` is a temporary name of the file `of`. */
static bool is_leftover(const char *name, const char *of)
{
    size_t kept = strnlen(of, NAME_KEPT);
    return strncmp(name, of, kept) == 0 && strncmp(name + kept, ".tmp-", 5) == 0 &&
           strlen(name) == kept + ENDING - 1 && strspn(name + kept + 5, "0123456789abcdef") == ENDING - 6;
}

void file_remove_leftovers(const char *directory, const char *const *names)
{
    DIR *entries = opendir(directory);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        for (size_t i = 0; names[i] != NULL; i++)
            if (is_leftover(entry->d_name, names[i]))
                unlinkat(dirfd(entries), entry->d_name, 0);
    closedir(entries);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Creates a new file or fails; never touches an existing one, not even a link. */
static int create(struct file_writer *writer, int *file)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        int error = name_temporary(writer);
        if (error != 0)
            return error;
        *file = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*file >= 0)
            return 0;
        if (errno != EEXIST && errno != EINTR)
            return errno;
    }
    return EEXIST;
}

/* mode: of the file to be replaced, or 0. The new file gets the same, so a private file stays private. */
static int open_temporary(struct host *host, struct file_writer *writer, mode_t mode)
{
    /* Blocks signals until the file is in the list. */
    sigset_t before;
    int file;
    signal_mask_all(&before);
    int error = create(writer, &file);
    if (error == 0)
        enter(host, writer);
    signal_mask_restore(&before);
    if (error != 0)
        return error;
    if (mode != 0 && fchmod(file, mode & 07777) != 0)
        error = errno;
    if (error != 0) {
        close(file);
        drop_temporary(writer);
    } else {
        writer->file = file;
        writer->open = true;
    }
    return error;
}

static void begin(struct file_writer *writer)
{
    writer->open = false;
    writer->used = 0;
    writer->path[0] = writer->temporary[0] = '\0';
    writer->error = 0;
    writer->host = NULL;
    writer->next = NULL;
}

static int open_in_place(struct file_writer *writer)
{
    writer->file = open(writer->path, O_WRONLY | O_CLOEXEC);
    writer->open = writer->file >= 0;
    return writer->file < 0 ? errno : 0;
}

/* A signal ends the wait for the reader of a pipe. */
static hashattn_status fail_writing(struct host *host, const char *path, int error)
{
    return file_fail(host, error == EINTR ? HASHATTN_INTERRUPTED : HASHATTN_NO_DISK,
                     file_is_standard(path) ? "standard output" : path, "write", error);
}

/* /dev/stdout, say, while standard output goes to a file, which may hold what others have written. A
   descriptor that only reads is none. */
static bool names_standard_output(const char *path)
{
    struct stat facts, standard;
    return stat(path, &facts) == 0 && fstat(STDOUT_FILENO, &standard) == 0 &&
           facts.st_dev == standard.st_dev && facts.st_ino == standard.st_ino &&
           (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

hashattn_status file_open_writer(struct host *host, const char *path, struct file_writer *writer)
{
    begin(writer);
    if (file_is_standard(path) || names_standard_output(path)) {
        memcpy(writer->path, "-", sizeof "-");
        fflush(stdout); /* what was printed before comes first */
        writer->file = STDOUT_FILENO;
        writer->open = true;
        return HASHATTN_OK;
    }
    int error = resolve(path, writer);
    struct stat facts = {.st_mode = 0};
    if (error == 0 && stat(writer->path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (error == 0)
        error = facts.st_mode == 0 || S_ISREG(facts.st_mode) ? open_temporary(host, writer, facts.st_mode)
                                                             : open_in_place(writer);
    return error == 0 ? HASHATTN_OK : fail_writing(host, path, error);
}

hashattn_status file_open_replacement(struct host *host, const char *path, struct file_writer *writer)
{
    begin(writer);
    int error = take_path(path, writer);
    struct stat facts = {.st_mode = 0};
    if (error == 0 && lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (error == 0)
        error = open_temporary(host, writer, S_ISREG(facts.st_mode) ? facts.st_mode : 0);
    return error == 0 ? HASHATTN_OK : fail_writing(host, path, error);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static bool is_temporary(const struct file_writer *writer)
{
    return writer->temporary[0] != '\0';
}

static void note_error(struct file_writer *writer, bool failed)
{
    if (failed && writer->error == 0)
        writer->error = errno != 0 ? errno : EIO;
}

static bool is_regular(int file)
{
    struct stat facts;
    return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* Passes bytes to the system at an offset, or at the end for -1. A write that a signal interrupts goes on,
   except to a pipe or device, where it may wait forever. */
static void pass(struct file_writer *writer, const char *bytes, size_t size, off_t offset)
{
    for (size_t done = 0; done < size && writer->error == 0;) {
        errno = 0;
        ssize_t count = offset < 0 ? write(writer->file, bytes + done, size - done)
                                   : pwrite(writer->file, bytes + done, size - done, offset + (off_t)done);
        done += count > 0 ? (size_t)count : 0;
        if (count == 0 || (count < 0 && (errno != EINTR || !is_regular(writer->file))))
            writer->error = errno != 0 ? errno : EIO;
    }
}

static void flush(struct file_writer *writer)
{
    pass(writer, writer->buffer, writer->used, -1);
    writer->used = 0;
}

void file_write(struct file_writer *writer, const void *bytes, size_t size)
{
    if (size > sizeof writer->buffer - writer->used)
        flush(writer);
    if (size > sizeof writer->buffer) {
        pass(writer, bytes, size, -1);
    } else if (size > 0 && writer->error == 0) {
        memcpy(writer->buffer + writer->used, bytes, size);
        writer->used += size;
    }
}

void file_print(struct file_writer *writer, const char *format, ...)
{
    va_list arguments;
    for (int i = 0; i < 2 && writer->error == 0; i++) { /* again with an empty buffer */
        size_t left = sizeof writer->buffer - writer->used;
        va_start(arguments, format);
        int size = vsnprintf(writer->buffer + writer->used, left, format, arguments);
        va_end(arguments);
        if (size >= 0 && (size_t)size < left) {
            writer->used += (size_t)size;
            return;
        }
        if (size < 0 || i == 1)
            writer->error = size < 0 ? errno : EOVERFLOW;
        flush(writer);
    }
}

void file_write_first(struct file_writer *writer, const void *bytes, size_t size)
{
    flush(writer);
    pass(writer, bytes, size, 0);
}

static int sync_file(int file)
{
    int result;
    do
        result = fsync(file);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Makes the rename durable. If the directory cannot be opened or flushed, that is not an error: the new file
   is in place. */
static void flush_directory(struct file_writer *writer)
{
    char directory[sizeof writer->path] = ".";
    const char *slash = strrchr(writer->path, '/');
    if (slash != NULL) {
        size_t length = slash == writer->path ? 1 : (size_t)(slash - writer->path);
        memcpy(directory, writer->path, length);
        directory[length] = '\0';
    }
    int file = file_open_now(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return;
    errno = 0;
    note_error(writer, sync_file(file) != 0 && errno != EINVAL && errno != ENOTSUP);
    close(file);
}

hashattn_status file_writer_status(struct host *host, const struct file_writer *writer)
{
    if (writer->error == 0)
        return HASHATTN_OK;
    return fail_writing(host, writer->path, writer->error);
}

static void close_file(struct file_writer *writer)
{
    if (writer->file != STDOUT_FILENO || !file_is_standard(writer->path))
        note_error(writer, close(writer->file) != 0 && errno != EINTR);
    writer->open = false;
}

hashattn_status file_commit(struct host *host, struct file_writer *writer)
{
    flush(writer);
    errno = 0;
    if (is_temporary(writer) && writer->error == 0)
        note_error(writer, sync_file(writer->file) != 0);
    close_file(writer);
    if (is_temporary(writer)) {
        if (writer->error == 0)
            note_error(writer, rename(writer->temporary, writer->path) != 0);
        if (writer->error == 0)
            flush_directory(writer);
        else
            unlink(writer->temporary);
        leave(writer);
    }
    return file_writer_status(host, writer);
}

void file_abandon(struct file_writer *writer)
{
    if (!writer->open)
        return;
    if (!is_temporary(writer)) /* bytes before these were passed on already */
        flush(writer);
    close_file(writer);
    if (is_temporary(writer))
        drop_temporary(writer);
}
