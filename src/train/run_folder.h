/* The directory of a run as a whole: whether one may begin or go on there, who may write in it, and clearing
   it up.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_FOLDER_H
#define TRAIN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/lock.h"

/* INVALID where there is something already; the message says what to do about what is no run. */
hashattn_status run_folder_check_new(struct host *host, const char *run);
/* BAD_FILE where there is a directory without config.json: no run, or one that was killed before it had
   written that. */
hashattn_status run_folder_check_old(struct host *host, const char *run);
/* Whether a state was ever saved: else the run goes on at step 0. Any file of a state counts, so that one
   that has lost another is not begun anew. */
bool run_folder_has_state(struct host *host, const char *run);

/* Locks the run for the one process that trains it, and removes what killed processes left half written.
   INVALID: it is being trained, by the process whose number is in the message. REFUSED: its file system has
   no locks. */
hashattn_status run_folder_lock(struct host *host, const char *run, struct lock *lock);
/* Removes a run that has failed before its first save was done: its files, and the directory if it holds
   nothing else. */
void run_folder_remove(struct host *host, const char *run);

#endif
