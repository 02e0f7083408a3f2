/* The labels of users' documents: a class, a number, or any of several labels for each document. The first
   pass over the training file collects them; then they are the targets of a data set.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DOCUMENT_LABELS_H
#define TASKS_DOCUMENT_LABELS_H

#include "base/tables/index_table.h"
#include "tasks/documents/document.h"

enum label_kind {
    LABELS_CLASS,  /* a word; the classes are the labels of the training file, sorted by bytes */
    LABELS_NUMBER, /* standardised: (value - mean) / deviation of the training file (facts->columns[0]) */
    LABELS_MANY,   /* words between commas, or an array of words in .jsonl; none is a set too */
};
enum { LABELS_MOST = 10000 };

/* One label of the first pass. */
struct label_seen {
    char *name; /* owned */
    size_t count;
    char example[SHOWN_SIZE]; /* the beginning of its first document */
};

/* The first pass. Starts as zeros, except for the kind. */
struct label_pass {
    enum label_kind kind;
    struct index_table table;
    struct label_seen *seen; /* (count) */
    size_t count, capacity, documents;
    double mean, squares; /* of numbers: the mean, and the sum of squared differences from it */
    double least, greatest;
    char examples[2][SHOWN_SIZE]; /* of the least and the greatest number */
};
hashattn_status label_pass_add(struct host *host, struct label_pass *pass, const struct document *document);
/* Sets the labels, the objective and the examples of the facts. BAD_FILE, with the path: no documents, a
   single label, nearly every label occurs once, all numbers are equal. */
hashattn_status label_pass_end(struct host *host, struct label_pass *pass, const char *path,
                               const char *column, struct task_facts *facts);
void label_pass_free(struct host *host, struct label_pass *pass);

/* The shape of targets of this kind. */
void labels_shape(enum label_kind kind, const struct task_facts *facts, struct dataset *dataset);
/* Writes the target of the next example of the builder. needed: a document without a label, or with an
   unknown one, is BAD_FILE; otherwise its weight is 0. */
hashattn_status labels_place(struct host *host, enum label_kind kind, const struct task_facts *facts,
                             const struct document *document, bool needed, struct dataset_builder *builder);

#endif
