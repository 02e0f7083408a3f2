/* Labelled documents, or labelled pairs of documents, from files of users (document_files.h), as tokens
   (tokens.h), with their labels (document_labels.h). A document longer than max_len tokens is cut (and
   counted).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENTS_H
#define TASKS_DOCUMENTS_H

#include "tasks/dataset.h"
#include "tasks/documents/document_files.h"
#include "tasks/documents/document_labels.h"
#include "tasks/tokens.h"

/* The endings of training, validation and test files ("/": a directory). */
extern const char *const document_endings[];

/* Where the documents are and how they are read. */
struct document_source {
    const struct split_files *files;
    struct document_rules rules; /* label_needed is set by the functions below */
    enum label_kind labels;
    enum text_cut cut; /* what of a longer document is left out */
    bool joined;       /* a pair is one sequence, with the separators of the tokenizer between */
};

/* Options of tasks that read documents. */
struct document_options {
    char delimiter[OPTION_TEXT_SIZE];
    int encoding; /* enum text_encoding */
    int header;
};
extern const char *const document_delimiter[];
/* Their rows, for the member `files` of a task's struct of options. */
#define DOCUMENT_ROWS(type)                                                                                  \
    OPTION_ROW("delimiter", OPTION_TEXT, offsetof(type, files.delimiter), 0, 1, OPTION_TEXT_SIZE - 1,        \
               document_delimiter,                                                                           \
               "the character between fields, or tab; auto: tab in .tsv, elsewhere comma, semicolon, tab "   \
               "or |, by the first line"),                                                                   \
        OPTION_ROW("encoding", OPTION_CHOICE, offsetof(type, files.encoding), ENCODING_UTF8, 0, 0,           \
                   encoding_names, "encoding of the files"),                                                 \
        OPTION_ROW(                                                                                          \
            "header", OPTION_FLAG, offsetof(type, files.header), 1, 0, 1, NULL,                              \
            "the first line of .csv, and of .tsv if they are there, has the names of the columns; without "  \
            "a "                                                                                             \
            "header a column is its number, from 1: the label in the first one, the text in the second")
/* Sets the rules that the options determine. facts: NULL while they are not known. INVALID: the delimiter. */
hashattn_status documents_source(struct host *host, const struct document_options *options,
                                 const struct task_facts *facts, struct document_source *source);

/* The functions of a task (task.h) for these files. max_len 0: tokens_usual_len. */
hashattn_status documents_facts(struct host *host, const struct document_source *source,
                                const char *directory, const struct token_choice *choice, size_t max_len,
                                struct task_facts *facts);
hashattn_status documents_load(struct host *host, const struct document_source *source,
                               const struct task_facts *facts, const char *directory, enum split split,
                               uint64_t seed, struct dataset *dataset);
hashattn_status documents_stream(struct host *host, const struct document_source *source,
                                 const struct task_facts *facts, const char *path,
                                 const struct dataset_stream *stream);
hashattn_status documents_stream_texts(struct host *host, const struct document_source *source,
                                       const struct task_facts *facts, const struct given_texts *texts,
                                       const struct dataset_stream *stream);

#endif
