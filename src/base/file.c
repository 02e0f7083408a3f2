/* Whole-file reads and writers that replace a file in one step, on POSIX calls. A writer costs one fsync of
   the file and one of its directory: milliseconds, a few times a minute. SPDX-License-Identifier: Apache-2.0
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/memory.h"

enum { BLOCK = 65536 }; /* the least that is asked for when reading */

static const char suffix[] = ".tmp";

/* "PATH: cannot WHAT: the system's reason". */
static hashattn_status fail_path(struct host *host, hashattn_status status, const char *path,
                                 const char *what, int error)
{
    char reason[100];
    host_fail(host, status, "cannot %s: %s", what, strerror_r(error, reason, sizeof reason));
    host_prefix(host, path);
    return status;
}

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static hashattn_status fail_limit(struct host *host, const char *path, size_t limit)
{
    host_fail(host, HASHATTN_BAD_FILE, "larger than the %zu bytes that are read", limit);
    host_prefix(host, path);
    return HASHATTN_BAD_FILE;
}

/* Makes room for `capacity` bytes and the NUL, keeping the first `used`. */
static hashattn_status grow(struct host *host, char **bytes, size_t used, size_t capacity)
{
    void *larger;
    TRY(memory_new(host, size_sum(capacity, 1), 1, "a file", &larger));
    if (used > 0)
        memcpy(larger, *bytes, used);
    memory_free(host, *bytes);
    *bytes = larger;
    return HASHATTN_OK;
}

static hashattn_status read_all(struct host *host, const char *path, int file, size_t limit, char **bytes,
                                size_t *size)
{
    /* A regular file says its size; a pipe is read into blocks that double. One byte more than either shows
       that there is more. */
    struct stat facts;
    size_t capacity = BLOCK;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode)) {
        if ((uint64_t)facts.st_size > limit)
            return fail_limit(host, path, limit);
        if ((size_t)facts.st_size >= BLOCK)
            capacity = size_sum((size_t)facts.st_size, 1);
    }
    TRY(grow(host, bytes, 0, capacity));
    for (;;) {
        ssize_t got = read(file, *bytes + *size, capacity - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_path(host, HASHATTN_BAD_FILE, path, "read", errno);
        if (got == 0)
            break;
        *size += (size_t)got;
        if (*size > limit)
            return fail_limit(host, path, limit);
        if (*size == capacity) {
            capacity = size_product(capacity, 2);
            TRY(grow(host, bytes, *size, capacity));
        }
    }
    (*bytes)[*size] = '\0';
    return HASHATTN_OK;
}

hashattn_status file_read(struct host *host, const char *path, size_t limit, char **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    int file = is_standard(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail_path(host, HASHATTN_BAD_FILE, path, "open", errno);
    hashattn_status status = read_all(host, path, file, limit, bytes, size);
    if (status == HASHATTN_NO_MEMORY)
        host_prefix(host, path);
    if (status != HASHATTN_OK) {
        memory_free(host, *bytes);
        *bytes = NULL;
        *size = 0;
    }
    if (!is_standard(path))
        close(file);
    return status;
}

/* ---- replacing ----------------------------------------------------------------------------------------- */

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
    if (is_standard(path)) {
        memcpy(writer->path, "-", sizeof "-");
        writer->stream = stdout;
        return HASHATTN_OK;
    }
    int error = resolve(path, writer);
    struct stat facts = {.st_mode = 0};
    if (error == 0 && stat(writer->path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (error != 0)
        return fail_path(host, HASHATTN_NO_DISK, path, "write", error);
    char opened[sizeof writer->path];
    memcpy(opened, writer->path, sizeof opened);
    writer->plain = facts.st_mode != 0 && !S_ISREG(facts.st_mode);
    if (!writer->plain)
        temporary_path(writer, opened);
    int file = open(opened, O_WRONLY | O_CLOEXEC | (writer->plain ? 0 : O_CREAT | O_TRUNC), 0666);
    if (file < 0)
        return fail_path(host, HASHATTN_NO_DISK, path, "write", errno);
    /* The successor of a private file is private. */
    if (!writer->plain && facts.st_mode != 0 && fchmod(file, facts.st_mode & 07777) != 0)
        error = errno;
    else if ((writer->stream = fdopen(file, "w")) == NULL)
        error = errno;
    if (error != 0) {
        close(file);
        if (!writer->plain)
            unlink(opened);
        return fail_path(host, HASHATTN_NO_DISK, path, "write", error);
    }
    return HASHATTN_OK;
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
        return fail_path(host, HASHATTN_NO_DISK, writer->path, "write", writer->error);
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

/* ---- appending ----------------------------------------------------------------------------------------- */

/* One write for the whole line, so that a crash leaves all of it or a cut line at the end. */
static int append(int file, const char *line)
{
    off_t end = lseek(file, 0, SEEK_END);
    char last = '\n';
    if (end > 0 && pread(file, &last, 1, end - 1) != 1)
        return errno != 0 ? errno : EIO;
    size_t length = strlen(line);
    char newline[] = "\n";
    struct iovec parts[3] = {{newline, last != '\n'}, {(void *)(uintptr_t)line, length}, {newline, 1}};
    size_t wanted = parts[0].iov_len + length + 1;
    ssize_t written;
    do {
        errno = 0;
        written = writev(file, parts, 3);
    } while (written < 0 && errno == EINTR);
    if (written == (ssize_t)wanted)
        return 0;
    int error = written < 0 ? errno : ENOSPC;
    if (written > 0 && end >= 0 && ftruncate(file, end) != 0)
        return errno;
    return error;
}

hashattn_status file_append_line(struct host *host, const char *path, const char *line)
{
    int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return fail_path(host, HASHATTN_NO_DISK, path, "append", errno);
    errno = 0;
    int error = append(file, line);
    if (close(file) != 0 && error == 0)
        error = errno;
    if (error != 0)
        return fail_path(host, HASHATTN_NO_DISK, path, "append", error);
    return HASHATTN_OK;
}

/* ---- names --------------------------------------------------------------------------------------------- */

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

hashattn_status file_make_directory(struct host *host, const char *path, bool may_exist)
{
    if (mkdir(path, 0777) == 0)
        return HASHATTN_OK;
    int error = errno;
    struct stat facts;
    if (error == EEXIST && may_exist && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return HASHATTN_OK;
    return fail_path(host, error == EEXIST ? HASHATTN_INVALID : HASHATTN_NO_DISK, path, "make the directory",
                     error);
}

hashattn_status file_join(struct host *host, const char *directory, const char *name, char *text, size_t size)
{
    size_t length = strlen(directory);
    const char *between = length == 0 || directory[length - 1] == '/' ? "" : "/";
    int written = snprintf(text, size, "%s%s%s", directory, between, name);
    FAIL_IF(written < 0 || (size_t)written >= size, host, HASHATTN_INVALID,
            "the path '%.60s...' is %d bytes long, at most %zu fit", directory, written, size - 1);
    return HASHATTN_OK;
}

void file_remove_directory(struct host *host, const char *directory, const char *const *names)
{
    struct host silent = *host; /* its message stays that of the failure */
    char path[4096];
    for (; *names != NULL; names++)
        if (file_join(&silent, directory, *names, path, sizeof path) == HASHATTN_OK)
            unlink(path);
    rmdir(directory);
}
