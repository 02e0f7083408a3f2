/* Documents, or pairs of them, with a label each, out of people's own files: .jsonl ({"text": "...", "label":
   "..."} a line; of a pair "text1" and "text2") or .tsv (label, tab, text; of a pair label, text, text, or
   label, name, name, text, text), for prediction of single ones also .txt (a document a line). All of it is
   UTF-8. A token is a byte + 1; a document longer than max_len bytes is cut (and counted), an empty one
   becomes a line feed, since a sequence has at least one token. The classes are the labels of the training
   file, sorted by bytes. SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENTS_H
#define TASKS_DOCUMENTS_H

#include "tasks/dataset.h"

enum { DOCUMENTS_VOCAB = 257 };

/* The functions of a task (task.h) for these files; whether they hold pairs says `files`, then the facts.
   The last is the slot itself: what it needs of the options is in the facts. */
hashattn_status documents_facts(struct host *host, const struct split_files *files, const char *directory,
                                size_t max_len, struct task_facts *facts);
hashattn_status documents_load(struct host *host, const struct split_files *files,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset);
hashattn_status documents_load_file(struct host *host, const void *options, const struct task_facts *facts,
                                    const char *path, struct dataset *dataset);

#endif
