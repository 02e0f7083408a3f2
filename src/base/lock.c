/* The text is one line: the process number and the name of its machine. One call writes it and nothing
   empties it, so a reader finds a whole line except just after the file was created.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

enum { LINE = 128, TRIES = 100 };

/* The lock also holds if this fails. */
static void write_holder(int file)
{
    char machine[64] = "", text[LINE];
    if (gethostname(machine, sizeof machine - 1) != 0 || machine[0] == '\0')
        strcpy(machine, "localhost");
    int length = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), machine);
    if (pwrite(file, text, (size_t)length, 0) == length && ftruncate(file, length) != 0)
        return; /* readers ignore what follows the first line */
}

/* Waits up to 0.1 s for a holder that has not written yet. */
static hashattn_status fail_held(struct host *host, const char *path, int file)
{
    char text[LINE] = "", *machine;
    for (int i = 0; i < TRIES; i++) {
        ssize_t got = pread(file, text, sizeof text - 1, 0);
        text[got < 0 ? 0 : got] = '\0';
        if (strchr(text, '\n') != NULL)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    long process = strtol(text, &machine, 10); /* "PROCESS MACHINE" */
    size_t size = strcspn(machine, "\n");
    if (machine == text || size < 2 || *machine != ' ')
        return host_fail(host, HASHATTN_INVALID, "%.300s is held by another process", path);
    return host_fail(host, HASHATTN_INVALID, "%.300s is held by process %ld on %.*s", path, process,
                     (int)(size - 1), machine + 1);
}

static hashattn_status take(struct host *host, const char *path, int file)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return file_fail(host, HASHATTN_NO_DISK, path, "open", errno);
    if (!S_ISREG(facts.st_mode))
        return file_fail_kind(host, HASHATTN_NO_DISK, path, facts.st_mode);
    FAIL_IF(facts.st_nlink != 1, host, HASHATTN_NO_DISK,
            "%.300s has %lu names (hard links), a lock has one; remove it, a new one is made", path,
            (unsigned long)facts.st_nlink);
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR)
            continue;
        if (errno == EWOULDBLOCK)
            return fail_held(host, path, file);
        return file_fail(host, HASHATTN_REFUSED, path, "lock", errno);
    }
    write_holder(file);
    return HASHATTN_OK;
}

hashattn_status lock_take(struct host *host, const char *path, struct lock *lock)
{
    lock->file = file_open_now(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock->file < 0)
        return file_fail(host, HASHATTN_NO_DISK, path, "open", errno);
    hashattn_status status = take(host, path, lock->file);
    if (status != HASHATTN_OK)
        lock_release(lock);
    return status;
}

void lock_release(struct lock *lock)
{
    if (lock->file >= 0)
        close(lock->file);
    lock->file = -1;
}

bool lock_is_replaced(const char *path, const struct lock *lock)
{
    struct stat held, found;
    return lock->file >= 0 && fstat(lock->file, &held) == 0 && lstat(path, &found) == 0 &&
           (held.st_dev != found.st_dev || held.st_ino != found.st_ino);
}

bool lock_is_held(const char *path)
{
    int file = file_open_now(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    bool held = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(file);
    return held;
}
