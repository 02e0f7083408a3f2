/* The directory of a run as a whole: who may write in it, and clearing it up.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_FOLDER_H
#define TRAIN_RUN_FOLDER_H

#include "base/lock.h"

/* Locks the run for the one process that trains it, and removes what killed processes left half written.
   INVALID: it is being trained, by the process whose number is in the message. REFUSED: its file system has
   no locks. */
hashattn_status run_folder_lock(struct host *host, const char *run, struct lock *lock);
/* Removes a run that has failed before its first save was done: its files, and the directory if it holds
   nothing else. */
void run_folder_remove(struct host *host, const char *run);

#endif
