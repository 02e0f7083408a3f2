/* Options of tasks by name, and files to predict as one data set.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TASK_CASE_H
#define TESTS_SUPPORT_TASK_CASE_H

#include "tasks/task.h"

/* Room for the options of any task. */
struct task_options {
    _Alignas(16) unsigned char bytes[640];
};
/* The defaults of a task with settings "NAME=VALUE NAME=VALUE ...". */
struct task_options task_options_of(const char *task, const char *settings);

/* Reads a file to predict in one part. On failure *dataset is empty. */
hashattn_status task_stream_whole(struct host *host, const char *task, const void *options,
                                  const struct task_facts *facts, const char *path, struct dataset *dataset);

#endif
