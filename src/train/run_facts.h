/* The facts of a task in a run: the section "task.facts" of config.json, and the vocabulary beside it, which
   is vocab.txt (tasks/words.h) or tokenizer.json (text/tokenizer.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_FACTS_H
#define TRAIN_RUN_FACTS_H

#include "io/json.h"
#include "tasks/task.h"

/* Adds the object "facts" to `task`. */
hashattn_status run_facts_put(struct host *host, struct json *task, const struct task_facts *facts);
/* Reads "task.facts". BAD_FILE, with the key. Also reads files of version 1, which have no list of
   objectives. */
hashattn_status run_facts_get(struct host *host, const struct json *root, struct task_facts *facts);

/* Write and read the vocabulary, if there is one. BAD_FILE, with the path: it is not the one that the facts
   count. */
hashattn_status run_facts_save_vocabulary(struct host *host, const char *run, const struct task_facts *facts);
hashattn_status run_facts_load_vocabulary(struct host *host, const char *run, struct task_facts *facts);

#endif
