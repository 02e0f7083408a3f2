/* What tasks share: growing data sets, finding and cutting splits, writing generated ones. Tasks include this
   file and task.h, never each other.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DATASET_H
#define TASKS_DATASET_H

#include "base/file.h"
#include "base/file_writer.h"
#include "io/encoding.h"
#include "io/lines.h"
#include "tasks/task.h"

/* An array of a data set, with one element per row, per example or per sequence. */
struct dataset_column {
    void **array;
    size_t size; /* bytes per element */
    bool of_rows;
    const char *what;
};
enum { DATASET_COLUMNS = 3 + 3 * TASK_OBJECTIVES };
/* Lists every array except the offsets that a data set of this shape (row_width, segmented, targets) has.
   Returns their number. */
size_t dataset_columns(struct dataset *dataset, struct dataset_column columns[DATASET_COLUMNS]);
/* The shape of sequences of ids with a class each: one objective, one id per example, weight 0 if unknown. */
void dataset_classified(struct dataset *dataset);

/* A data set that grows example by example. Starts as zeros, except for the shape of its data set. */
struct dataset_builder {
    struct dataset dataset;              /* num_cut is counted when a split is complete */
    bool *cut;                           /* (capacity): true if this example was cut */
    size_t row_capacity, capacity;       /* number of rows, number of examples */
    size_t place_capacity;               /* number of places of a sparse targets[0] */
    const struct dataset_stream *stream; /* gets complete parts; NULL: all examples are kept */
    size_t streamed;                     /* number of examples that it got */
};
/* Makes room for one more example of up to `length` rows, after passing a complete part to the stream. *row
   is the index of its first row; its index as an example is dataset.count. */
hashattn_status dataset_reserve(struct host *host, struct dataset_builder *builder, size_t length,
                                size_t *row);
/* Makes the first `length` reserved rows the next example. */
void dataset_push(struct dataset_builder *builder, size_t length, bool cut);
/* As dataset_push, with a label: an id, or a negative number if unknown. For shapes of dataset_classified. */
void dataset_push_label(struct dataset_builder *builder, size_t length, int32_t label, bool cut);
/* For pairs: the first `first` reserved rows are one sequence, the following `second` rows the other. */
void dataset_push_pair(struct dataset_builder *builder, size_t first, size_t second, bool cut);
/* On success moves the data set out of the builder; after a failed read frees what the reader left. */
hashattn_status dataset_finish(struct host *host, struct dataset_builder *builder, hashattn_status status,
                               struct dataset *dataset);
/* Ends the reading of a file with a stream: passes the last part on, after a bad line too. BAD_FILE: the file
   had no examples ("PATH has no WHAT"). */
hashattn_status dataset_stream_end(struct host *host, struct dataset_builder *builder, const char *path,
                                   const char *what, hashattn_status status);

/* The names of a task's files: the stem of each split ("basic_val") and the extensions to try (".jsonl"; "/":
   a directory), ended by NULL. */
struct split_files {
    const char *stems[SPLIT_COUNT];
    const char *const *endings;
    bool pairs;    /* examples are pairs */
    bool one_text; /* examples are segments of one text: validation and test are its end, without a
                      permutation */
    bool lone;     /* the "directory" may be the training file itself */
};
#define FILE_MOST ((size_t)1 << 34) /* bytes per file, which is read whole */

/* The path of the one file of this split, "" if there is none. Two files with different extensions are
   BAD_FILE. */
hashattn_status split_find(struct host *host, const struct split_files *files, const char *directory,
                           enum split split, char *path, size_t size);
/* As split_find for the training file, which must exist. */
hashattn_status split_find_train(struct host *host, const struct split_files *files, const char *directory,
                                 char *path, size_t size);

/* Who named the file that a builder is filled from: the user a file to predict, the folder all others. */
enum file_source dataset_source(const struct dataset_builder *builder);

/* Calls visit for every line of a file (file_open) until a call fails; its message is then
   prefixed with the path and the line number, counted from 1, unless it is INTERRUPTED. Reads in blocks, so
   memory does not grow with the file. */
typedef hashattn_status line_visitor(struct host *host, void *context, struct piece line, size_t number);
hashattn_status file_each_line(struct host *host, const char *path, enum file_source source,
                               line_visitor *visit, void *context);
/* The same for a file of another encoding; the lines are UTF-8. */
hashattn_status file_each_line_in(struct host *host, const char *path, enum file_source source,
                                  enum text_encoding encoding, line_visitor *visit, void *context);
/* A piece of a file for a message: at most 40 bytes, with unprintable ones replaced. Returns text. */
enum { SHOWN_SIZE = TASK_SHOWN };
const char *piece_shown(struct piece piece, char text[SHOWN_SIZE]);

/* Appends the examples of one file. The data set has the `shape` given to split_load. */
typedef hashattn_status split_reader(struct host *host, const void *context, const char *path,
                                     struct dataset_builder *builder);
/* The `load` of every task: reads the file of the split, or cuts the split out of the training file, with the
   same share of every label (splits.h). */
hashattn_status split_load(struct host *host, const struct split_files *files, const struct task_facts *facts,
                           const char *directory, enum split split, uint64_t seed,
                           const struct dataset *shape, split_reader *read, const void *context,
                           struct dataset *dataset);

/* Writes example (split, index) of a generated data set. */
typedef hashattn_status split_writer(struct host *host, void *context, enum split split, size_t index,
                                     struct file_writer *writer);
/* INVALID if there is a file at `path`: data are never overwritten. last: the file that an attempt writes
   last, without which the message says that a killed attempt may have left this one; NULL: none. */
hashattn_status split_check_new(struct host *host, const char *path, const char *last);
/* The `generate` of every task: writes `header` and counts[split] examples into each split's file, with the
   first extension, test first and train last. The files appear when all are written. */
hashattn_status split_write(struct host *host, const struct split_files *files, const char *directory,
                            const size_t *counts, const char *header, split_writer *write, void *context);

#endif
