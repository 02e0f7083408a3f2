/* Labelled documents, or labelled pairs of documents, from files of users: .jsonl ({"text": "...", "label":
   "..."} per line; for pairs "text1" and "text2") or .tsv (label, tab, text; for pairs label, text, text, or
   label, name, name, text, text). Prediction of single documents also reads .txt (one document per line). All
   files are UTF-8. A token is a byte + 1. A document longer than max_len bytes is cut (and counted); an empty
   one becomes a line feed, because a sequence has at least one token. The classes are the labels of the
   training file, sorted by bytes. SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENTS_H
#define TASKS_DOCUMENTS_H

#include "tasks/dataset.h"

enum { DOCUMENTS_VOCAB = 257 };

/* The functions of a task (task.h) for these files. `files`, and later the facts, say whether examples are
   pairs. documents_load_file fills the slot itself: everything it needs of the options is in the facts. */
hashattn_status documents_facts(struct host *host, const struct split_files *files, const char *directory,
                                size_t max_len, struct task_facts *facts);
hashattn_status documents_load(struct host *host, const struct split_files *files,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset);
hashattn_status documents_load_file(struct host *host, const void *options, const struct task_facts *facts,
                                    const char *path, struct dataset *dataset);

#endif
