/* Writers with POSIX calls and a stream of the C library. Each costs one fsync of the file and one of its
   directory: milliseconds, a few times a minute.
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
        if (errno != EEXIST)
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
    else if ((writer->stream = fdopen(file, "w")) == NULL)
        error = errno;
    if (error != 0) {
        close(file);
        drop_temporary(writer);
    }
    return error;
}

static int open_in_place(struct file_writer *writer)
{
    int file = open(writer->path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    writer->stream = fdopen(file, "w");
    int error = writer->stream == NULL ? errno : 0;
    if (error != 0)
        close(file);
    return error;
}

hashattn_status file_open_writer(struct host *host, const char *path, struct file_writer *writer)
{
    *writer = (struct file_writer){.error = 0};
    if (file_is_standard(path)) {
        memcpy(writer->path, "-", sizeof "-");
        writer->stream = stdout;
        return HASHATTN_OK;
    }
    int error = resolve(path, writer);
    struct stat facts = {.st_mode = 0};
    if (error == 0 && stat(writer->path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (error == 0)
        error = facts.st_mode == 0 || S_ISREG(facts.st_mode) ? open_temporary(host, writer, facts.st_mode)
                                                             : open_in_place(writer);
    return error == 0 ? HASHATTN_OK : file_fail(host, HASHATTN_NO_DISK, path, "write", error);
}

hashattn_status file_open_replacement(struct host *host, const char *path, struct file_writer *writer)
{
    *writer = (struct file_writer){.error = 0};
    int error = take_path(path, writer);
    struct stat facts = {.st_mode = 0};
    if (error == 0 && lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (error == 0)
        error = open_temporary(host, writer, S_ISREG(facts.st_mode) ? facts.st_mode : 0);
    return error == 0 ? HASHATTN_OK : file_fail(host, HASHATTN_NO_DISK, path, "write", error);
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

void file_write(struct file_writer *writer, const void *bytes, size_t size)
{
    errno = 0;
    if (writer->error == 0 && size > 0)
        note_error(writer, fwrite(bytes, 1, size, writer->stream) != size);
}

void file_print(struct file_writer *writer, const char *format, ...)
{
    errno = 0;
    va_list arguments;
    va_start(arguments, format);
    if (writer->error == 0)
        note_error(writer, vfprintf(writer->stream, format, arguments) < 0);
    va_end(arguments);
}

void file_write_first(struct file_writer *writer, const void *bytes, size_t size)
{
    errno = 0;
    if (writer->error == 0)
        note_error(writer, fseeko(writer->stream, 0, SEEK_SET) != 0);
    file_write(writer, bytes, size);
    if (writer->error == 0)
        note_error(writer, fseeko(writer->stream, 0, SEEK_END) != 0);
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
    int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return;
    errno = 0;
    note_error(writer, fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP);
    close(file);
}

hashattn_status file_writer_status(struct host *host, const struct file_writer *writer)
{
    if (writer->error == 0)
        return HASHATTN_OK;
    return file_fail(host, HASHATTN_NO_DISK,
                     file_is_standard(writer->path) ? "standard output" : writer->path, "write",
                     writer->error);
}

hashattn_status file_commit(struct host *host, struct file_writer *writer)
{
    errno = 0;
    note_error(writer, fflush(writer->stream) != 0);
    if (is_temporary(writer) && writer->error == 0)
        note_error(writer, fsync(fileno(writer->stream)) != 0);
    if (writer->stream == stdout)
        clearerr(stdout);
    else
        note_error(writer, fclose(writer->stream) != 0);
    writer->stream = NULL;
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
    if (writer->stream == NULL)
        return;
    if (writer->stream != stdout)
        fclose(writer->stream);
    writer->stream = NULL;
    if (is_temporary(writer))
        drop_temporary(writer);
}
