/* Writers, on POSIX calls and a stream of the C library. One costs an fsync of the file and one of its
   directory: milliseconds, a few times a minute. SPDX-License-Identifier: Apache-2.0 */
#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static const char suffix[] = ".tmp";

/* ---- opening ------------------------------------------------------------------------------------------- */

static void temporary_path(const struct file_writer *writer, char path[sizeof writer->path])
{
    size_t length = strlen(writer->path); /* file_open_writer left room */
    memcpy(path, writer->path, length);
    memcpy(path + length, suffix, sizeof suffix);
}

/* Where a link leads, so that the file is replaced and not the link (which may be /dev/stdout). */
static int resolve(const char *path, struct file_writer *writer)
{
    struct stat facts;
    size_t length = strlen(path);
    if (length == 0)
        return ENOENT;
    if (length + sizeof suffix > sizeof writer->path)
        return ENAMETOOLONG;
    if (lstat(path, &facts) != 0 || !S_ISLNK(facts.st_mode)) {
        memcpy(writer->path, path, length + 1);
        return 0;
    }
    _Static_assert(sizeof writer->path >= PATH_MAX, "realpath fills up to PATH_MAX bytes");
    if (realpath(path, writer->path) == NULL)
        return errno;
    return strlen(writer->path) + sizeof suffix > sizeof writer->path ? ENAMETOOLONG : 0;
}

hashattn_status file_open_writer(struct host *host, const char *path, struct file_writer *writer)
{
    *writer = (struct file_writer){.plain = true};
    if (file_is_standard(path)) {
        memcpy(writer->path, "-", sizeof "-");
        writer->stream = stdout;
        return HASHATTN_OK;
    }
    int error = resolve(path, writer);
    struct stat facts = {.st_mode = 0};
    if (error == 0 && stat(writer->path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (error != 0)
        return file_fail(host, HASHATTN_NO_DISK, path, "write", error);
    char opened[sizeof writer->path];
    memcpy(opened, writer->path, sizeof opened);
    writer->plain = facts.st_mode != 0 && !S_ISREG(facts.st_mode);
    if (!writer->plain)
        temporary_path(writer, opened);
    int file = open(opened, O_WRONLY | O_CLOEXEC | (writer->plain ? 0 : O_CREAT | O_TRUNC), 0666);
    if (file < 0)
        return file_fail(host, HASHATTN_NO_DISK, path, "write", errno);
    /* The successor of a private file is private. */
    if (!writer->plain && facts.st_mode != 0 && fchmod(file, facts.st_mode & 07777) != 0)
        error = errno;
    else if ((writer->stream = fdopen(file, "w")) == NULL)
        error = errno;
    if (error != 0) {
        close(file);
        if (!writer->plain)
            unlink(opened);
        return file_fail(host, HASHATTN_NO_DISK, path, "write", error);
    }
    return HASHATTN_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

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

/* Makes the new name itself last. A directory that may not be opened, or a file system that cannot flush one,
   is not an error: the new file is in its place. */
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

hashattn_status file_commit(struct host *host, struct file_writer *writer)
{
    errno = 0;
    note_error(writer, fflush(writer->stream) != 0);
    if (!writer->plain && writer->error == 0)
        note_error(writer, fsync(fileno(writer->stream)) != 0);
    if (writer->stream == stdout)
        clearerr(stdout);
    else
        note_error(writer, fclose(writer->stream) != 0);
    writer->stream = NULL;
    if (!writer->plain) {
        char temporary[sizeof writer->path];
        temporary_path(writer, temporary);
        if (writer->error == 0)
            note_error(writer, rename(temporary, writer->path) != 0);
        if (writer->error != 0)
            unlink(temporary);
        else
            flush_directory(writer);
    }
    if (writer->error != 0)
        return file_fail(host, HASHATTN_NO_DISK, writer->path, "write", writer->error);
    return HASHATTN_OK;
}

void file_abandon(struct file_writer *writer)
{
    if (writer->stream == NULL)
        return;
    if (writer->stream != stdout)
        fclose(writer->stream);
    writer->stream = NULL;
    if (!writer->plain) {
        char temporary[sizeof writer->path];
        temporary_path(writer, temporary);
        unlink(temporary);
    }
}
