/* Reading whole files, appending to logs and making directories with POSIX calls.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/memory.h"

enum { BLOCK = 65536 }; /* smallest read, in bytes */

static const char *reason_of(int error, char *text, size_t size)
{
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    return strerror_r(error, text, size); /* the text, which need not be in the buffer */
#else
    return strerror_r(error, text, size) == 0 ? text : "unknown error";
#endif
}

hashattn_status file_fail(struct host *host, hashattn_status status, const char *path, const char *what,
                          int error)
{
    char reason[100];
    host_fail(host, status, "cannot %s: %s", what, reason_of(error, reason, sizeof reason));
    if (path != NULL)
        host_prefix(host, path);
    return status;
}

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode)   ? "a pipe"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISLNK(mode)  ? "a link"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

hashattn_status file_fail_kind(struct host *host, hashattn_status status, const char *path, mode_t mode)
{
    host_fail(host, status, "is %s, a regular file is needed", kind_of(mode));
    host_prefix(host, path);
    return status;
}

bool file_is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* A signal ends a wait for a pipe or device. */
static hashattn_status fail_reading(struct host *host, const char *path, const char *what, int error)
{
    return file_fail(host, error == EINTR ? HASHATTN_INTERRUPTED : HASHATTN_BAD_FILE,
                     path != NULL && file_is_standard(path) ? "standard input" : path, what, error);
}

static hashattn_status fail_limit(struct host *host, const char *path, size_t limit)
{
    host_fail(host, HASHATTN_BAD_FILE, "larger than the limit of %zu bytes", limit);
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

static bool is_regular(int file)
{
    struct stat facts;
    return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
}

hashattn_status file_read_some(struct host *host, const char *path, int file, void *bytes, size_t most,
                               size_t *got)
{
    ssize_t count;
    int error;
    do {
        count = read(file, bytes, most);
        error = errno;
    } while (count < 0 && error == EINTR && is_regular(file)); /* only some network disks interrupt these */
    *got = count > 0 ? (size_t)count : 0;
    return count < 0 ? fail_reading(host, path, "read", error) : HASHATTN_OK;
}

static hashattn_status read_all(struct host *host, const char *path, int file, size_t limit, char **bytes,
                                size_t *size)
{
    /* The size of a regular file is known; for a pipe the block doubles. One extra byte shows whether more
       follows. */
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
        size_t got;
        TRY(file_read_some(host, path, file, *bytes + *size, capacity - *size, &got));
        if (got == 0)
            break;
        *size += got;
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

int file_open_now(const char *path, int flags)
{
    int file;
    do
        file = open(path, flags, 0666);
    while (file < 0 && errno == EINTR);
    return file;
}

hashattn_status file_open_regular(struct host *host, const char *path, int *file, size_t *size)
{
    struct stat facts;
    *size = 0;
    *file = file_open_now(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* does not wait for a pipe's writer */
    if (*file < 0)
        return file_fail(host, HASHATTN_BAD_FILE, path, "open", errno);
    hashattn_status status = HASHATTN_OK;
    if (fstat(*file, &facts) != 0)
        status = file_fail(host, HASHATTN_BAD_FILE, path, "open", errno);
    else if (!S_ISREG(facts.st_mode))
        status = file_fail_kind(host, HASHATTN_BAD_FILE, path, facts.st_mode);
    else
        *size = (size_t)facts.st_size;
    if (status != HASHATTN_OK) {
        close(*file);
        *file = -1;
    }
    return status;
}

hashattn_status file_open(struct host *host, const char *path, enum file_source source, int *file)
{
    size_t size;
    if (source == FILE_FOUND)
        return file_open_regular(host, path, file, &size);
    *file = file_is_standard(path) ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    return *file < 0 ? fail_reading(host, path, "open", errno) : HASHATTN_OK;
}

hashattn_status file_check_recorded(struct host *host, const char *path)
{
    struct stat facts;
    FAIL_IF(file_is_standard(path), host, HASHATTN_BAD_FILE,
            "the data of the run is '-', a regular file or a directory is needed");
    if (stat(path, &facts) != 0)
        return file_fail(host, HASHATTN_BAD_FILE, path, "open", errno);
    return S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)
               ? HASHATTN_OK
               : file_fail_kind(host, HASHATTN_BAD_FILE, path, facts.st_mode);
}

/* All of it, or nothing. */
static hashattn_status take_all(struct host *host, const char *path, int file, size_t limit, char **bytes,
                                size_t *size)
{
    hashattn_status status = read_all(host, path, file, limit, bytes, size);
    if (status == HASHATTN_NO_MEMORY)
        host_prefix(host, path);
    if (status != HASHATTN_OK) {
        memory_free(host, *bytes);
        *bytes = NULL;
        *size = 0;
    }
    return status;
}

hashattn_status file_read_regular(struct host *host, const char *path, size_t limit, char **bytes,
                                  size_t *size)
{
    int file;
    *bytes = NULL;
    TRY(file_open_regular(host, path, &file, size));
    *size = 0;
    hashattn_status status = take_all(host, path, file, limit, bytes, size);
    close(file);
    return status;
}

hashattn_status file_read_start(struct host *host, const char *path, size_t most, char **bytes, size_t *count,
                                size_t *size)
{
    int file;
    *bytes = NULL;
    *count = 0;
    TRY(file_open_regular(host, path, &file, size));
    size_t wanted = size_min(most, *size);
    hashattn_status status = grow(host, bytes, 0, wanted);
    ssize_t got = 1;
    while (status == HASHATTN_OK && *count < wanted && got != 0) {
        got = read(file, *bytes + *count, wanted - *count);
        if (got < 0 && errno != EINTR)
            status = file_fail(host, HASHATTN_BAD_FILE, path, "read", errno);
        *count += got > 0 ? (size_t)got : 0;
    }
    close(file);
    if (status == HASHATTN_OK) {
        (*bytes)[*count] = '\0';
        return HASHATTN_OK;
    }
    if (status == HASHATTN_NO_MEMORY)
        host_prefix(host, path);
    memory_free(host, *bytes);
    *bytes = NULL;
    *count = 0;
    return status;
}

hashattn_status file_read(struct host *host, const char *path, size_t limit, char **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    int file;
    TRY(file_open(host, path, FILE_TYPED, &file));
    hashattn_status status = take_all(host, path, file, limit, bytes, size);
    close(file);
    return status;
}

/* ---- appending ----------------------------------------------------------------------------------------- */

/* Writes the line with one call, so that a crash leaves either all of it or a cut last line. */
static int append(int file, const char *line)
{
    off_t end = lseek(file, 0, SEEK_END);
    char last = '\n';
    ssize_t got = 1;
    while (end > 0 && (got = pread(file, &last, 1, end - 1)) < 0 && errno == EINTR) {
    }
    if (got != 1)
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
    struct stat facts;
    if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return file_fail_kind(host, HASHATTN_NO_DISK, path, facts.st_mode);
    int file = file_open_now(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return file_fail(host, HASHATTN_NO_DISK, path, "append", errno);
    errno = 0;
    int error = append(file, line);
    if (close(file) != 0 && errno != EINTR && error == 0)
        error = errno;
    if (error != 0)
        return file_fail(host, HASHATTN_NO_DISK, path, "append", error);
    return HASHATTN_OK;
}

/* ---- names --------------------------------------------------------------------------------------------- */

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_listed(const char *name, const char *ending)
{
    size_t size = strlen(name), end = strlen(ending);
    return name[0] != '.' && size >= end && strcmp(name + size - end, ending) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names one after another, each with its NUL. */
static hashattn_status read_names(struct host *host, const char *path, DIR *directory, const char *ending,
                                  char **bytes, size_t *used, size_t *count)
{
    size_t capacity = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL && errno != 0)
            return file_fail(host, HASHATTN_BAD_FILE, path, "read", errno);
        if (entry == NULL)
            return HASHATTN_OK;
        if (!is_listed(entry->d_name, ending))
            continue;
        size_t size = strlen(entry->d_name) + 1;
        TRY(memory_grow(host, bytes, &capacity, *used, size, 1, "names of files"));
        memcpy(*bytes + *used, entry->d_name, size);
        *used += size;
        (*count)++;
    }
}

hashattn_status file_list(struct host *host, const char *directory, const char *ending, const char ***names,
                          size_t *count)
{
    char *bytes = NULL;
    size_t used = 0;
    void *block;
    *names = NULL;
    *count = 0;
    DIR *open_directory = opendir(directory);
    if (open_directory == NULL)
        return file_fail(host, HASHATTN_BAD_FILE, directory, "open", errno);
    hashattn_status status = read_names(host, directory, open_directory, ending, &bytes, &used, count);
    closedir(open_directory);
    if (status == HASHATTN_OK)
        status = memory_new(host, size_sum(size_product(*count, sizeof **names), used), 1, "names of files",
                            &block);
    if (status == HASHATTN_OK && *count > 0) {
        const char **list = block;
        char *text = memcpy(list + *count, bytes, used);
        for (size_t i = 0; i < *count; text += strlen(text) + 1)
            list[i++] = text;
        qsort(list, *count, sizeof *list, compare_names);
        *names = list;
    }
    if (status != HASHATTN_OK)
        *count = 0;
    memory_free(host, bytes);
    return status;
}

hashattn_status file_make_directory(struct host *host, const char *path, bool may_exist)
{
    if (mkdir(path, 0777) == 0)
        return HASHATTN_OK;
    int error = errno;
    struct stat facts;
    if (error == EEXIST && may_exist && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return HASHATTN_OK;
    return file_fail(host, error == EEXIST ? HASHATTN_INVALID : HASHATTN_NO_DISK, path, "make the directory",
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

/* True if no part of the name is "..". */
static bool goes_down(const char *name)
{
    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

/* True unless links lead from the directory to a path outside. A path that does not exist is inside. */
static bool resolves_inside(const char *directory, const char *path)
{
    char root[PATH_MAX], real[PATH_MAX];
    if (realpath(directory, root) == NULL || realpath(path, real) == NULL || strcmp(root, "/") == 0)
        return true;
    size_t length = strlen(root);
    return strncmp(real, root, length) == 0 && (real[length] == '/' || real[length] == '\0');
}

hashattn_status file_join_inside(struct host *host, const char *directory, const char *name, char *text,
                                 size_t size)
{
    FAIL_IF(name[0] == '\0' || name[0] == '/' || !goes_down(name), host, HASHATTN_BAD_FILE,
            "the name of a file is '%.200s', a path inside the directory is needed", name);
    TRY(file_join(host, directory, name, text, size));
    FAIL_IF(!resolves_inside(directory, text), host, HASHATTN_BAD_FILE,
            "the name of a file is '%.200s', a link there leads out of the directory", name);
    return HASHATTN_OK;
}

void file_remove(const char *path)
{
    unlink(path);
}

void file_remove_directory(struct host *host, const char *directory, const char *const *names)
{
    struct host silent = *host; /* keeps the message of the failure */
    char path[4096];
    for (; *names != NULL; names++)
        if (file_join(&silent, directory, *names, path, sizeof path) == HASHATTN_OK)
            unlink(path);
    rmdir(directory);
}
