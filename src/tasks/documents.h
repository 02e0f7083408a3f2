/* Labelled documents, or labelled pairs of documents, from files of users (document_files.h), as tokens
   (tokens.h). A document longer than max_len tokens is cut (and counted). The classes are the labels of the
   training file, sorted by bytes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENTS_H
#define TASKS_DOCUMENTS_H

#include "tasks/dataset.h"
#include "tasks/document_files.h"
#include "tasks/tokens.h"

/* The endings of training, validation and test files ("/": a directory). */
extern const char *const document_endings[];

/* Where the documents are and how they are read. */
struct document_source {
    const struct split_files *files;
    struct document_rules rules; /* label_needed is set by the functions below */
};

/* The functions of a task (task.h) for these files. max_len 0: tokens_usual_len. */
hashattn_status documents_facts(struct host *host, const struct document_source *source,
                                const char *directory, const struct token_choice *choice, size_t max_len,
                                struct task_facts *facts);
hashattn_status documents_load(struct host *host, const struct document_source *source,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset);
hashattn_status documents_stream(struct host *host, const struct document_rules *rules,
                                 const struct task_facts *facts, const char *path,
                                 const struct dataset_stream *stream);

#endif
