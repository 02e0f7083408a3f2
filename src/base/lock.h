/* A lock among processes and within one: a file locked with flock that contains the holder's process number.
   The system releases it when the holder ends for any reason; the file stays.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>

#include "base/host.h"

struct lock {
    int file; /* -1: not held */
};

/* Takes the lock `path`, and creates the file if there is none. INVALID: it is held, "PATH is held by process
   1234 on box". REFUSED: the file system has no locks. NO_DISK: the file cannot be opened, or is a link, a
   pipe, a device or has a second name. */
hashattn_status lock_take(struct host *host, const char *path, struct lock *lock);
void lock_release(struct lock *lock); /* does nothing if not held */
/* True if `path` is another file by now: the lock that is held guards nothing there any more. */
bool lock_is_replaced(const char *path, const struct lock *lock);
/* True if somebody holds the lock `path`. Creates no file. Takes a shared lock for microseconds: a holder
   that comes just then is refused. */
bool lock_is_held(const char *path);

#endif
