/* The directory of a run: checks before a run begins or resumes there, its lock, and cleaning it up.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_FOLDER_H
#define TRAIN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/lock.h"

/* INVALID if `run` exists already; the message says what to do if it is not a run. */
hashattn_status run_folder_check_new(struct host *host, const char *run);
/* BAD_FILE if the directory has no config.json: it is not a run, or the process was killed before it wrote
   one. */
hashattn_status run_folder_check_old(struct host *host, const char *run);
/* True if any file of a state exists; if none does, the run starts at step 0. A state with a missing file
   counts, so that the run is not restarted. */
bool run_folder_has_state(struct host *host, const char *run);

/* Locks the run for the one process that trains it, and removes temporary files of killed processes. INVALID:
   another process is training it; the message has its number. REFUSED: the file system has no locks. */
hashattn_status run_folder_lock(struct host *host, const char *run, struct lock *lock);
/* INVALID if the lock of the directory `run` is another file by now, because another run took its place or
   the lock was removed and made again: nothing may be written there. A lock that is gone counts as unchanged.
 */
hashattn_status run_folder_check_lock(struct host *host, const char *run, const struct lock *lock);
/* True if a process holds the lock of the run. */
bool run_folder_is_locked(const char *run);
/* Removes the model of an evaluation at a stop, which an uninterrupted run does not have. */
void run_folder_drop_stopped(struct host *host, const char *run);
/* Removes a run that failed before its first save: its files, and the directory if it holds nothing else. */
void run_folder_remove(struct host *host, const char *run);

#endif
