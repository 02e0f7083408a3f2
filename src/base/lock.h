/* A lock that one holder has at a time, among processes and within one: a file that is locked with flock, and
   holds the number of the process. The system releases it when its holder ends, however that happens; the
   file stays. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/host.h"

struct lock {
    int file; /* -1: not held */
};

/* Takes the lock `path`, making the file where there is none. INVALID: somebody has it, "PATH is held by
   process 1234 on box". REFUSED: the file system has no locks. NO_DISK: the file cannot be opened, or is a
   link, a pipe, a device or another file under a second name. */
hashattn_status lock_take(struct host *host, const char *path, struct lock *lock);
void lock_release(struct lock *lock); /* harmless when not held */

#endif
