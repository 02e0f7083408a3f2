/* What the files of this folder build with: growing data sets, finding and cutting splits, writing generated
   ones. Tasks include this and task.h, never each other. SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_DATASET_H
#define TASKS_DATASET_H

#include "base/file_writer.h"
#include "io/lines.h"
#include "tasks/task.h"

/* An array of a data set: of rows, or of examples or sequences. */
struct dataset_column {
    void **array;
    size_t size; /* bytes of an element */
    bool of_rows;
    const char *what;
};
enum { DATASET_COLUMNS = 3 + 3 * TASK_OBJECTIVES };
/* All arrays but the offsets that a data set of this shape (row_width, segmented, targets) has; their number.
 */
size_t dataset_columns(struct dataset *dataset, struct dataset_column columns[DATASET_COLUMNS]);
/* The shape of classified ids: targets of one objective, one id per example, weight 0 where it is not known.
 */
void dataset_classified(struct dataset *dataset);

/* A data set that grows example by example. Starts as zeros, with the shape of the data set set. */
struct dataset_builder {
    struct dataset dataset;        /* its num_cut is counted when a split is complete */
    bool *cut;                     /* (capacity): this example was cut */
    size_t row_capacity, capacity; /* of rows, and of examples */
};
/* Room for one more example of up to `length` rows. *row is the place of its first one in the arrays of rows;
   its own place in those of examples is dataset.count. */
hashattn_status dataset_room(struct host *host, struct dataset_builder *builder, size_t length, size_t *row);
/* The first `length` rows of that room become the next example. */
void dataset_push(struct dataset_builder *builder, size_t length, bool cut);
/* The same with its label, an id, or below 0 where it is not known; of dataset_classified. */
void dataset_push_label(struct dataset_builder *builder, size_t length, int32_t label, bool cut);
/* Of pairs: the first `first` rows of that room are one sequence, the `second` after them the other. */
void dataset_push_pair(struct dataset_builder *builder, size_t first, size_t second, int32_t label, bool cut);
/* Moves a successfully read data set out of the builder, or drops what a failing reader left. */
hashattn_status dataset_finish(struct host *host, struct dataset_builder *builder, hashattn_status status,
                               struct dataset *dataset);

/* How the files of a task are called: stem of each split ("basic_val") and the endings that are tried, ended
 * by NULL (".jsonl"). */
struct split_files {
    const char *stems[SPLIT_COUNT];
    const char *const *endings;
    bool pairs;    /* their examples are pairs */
    bool one_text; /* their examples are stretches of one text: a cut takes its end, and mixes nothing */
};
#define FILE_MOST ((size_t)1 << 34) /* bytes of a file: it is read whole */

/* The path of the one file of this split, "" when there is none; two of different endings are BAD_FILE. */
hashattn_status split_find(struct host *host, const struct split_files *files, const char *directory,
                           enum split split, char *path, size_t size);
/* The training file, which must be there. */
hashattn_status split_find_train(struct host *host, const struct split_files *files, const char *directory,
                                 char *path, size_t size);

/* Calls visit for every line of a file (path "-": standard input) until one fails; its message is then headed
   by the path and the line's number, of which the first is 1. */
typedef hashattn_status line_visitor(struct host *host, void *context, struct piece line, size_t number);
hashattn_status file_each_line(struct host *host, const char *path, line_visitor *visit, void *context);
/* A piece of a file for a message: at most 40 bytes, what would not print replaced. Returns text. */
enum { SHOWN_SIZE = 48 };
const char *piece_shown(struct piece piece, char text[SHOWN_SIZE]);

/* Appends the examples of one file; the shape of the data set is that of `shape` of split_load. */
typedef hashattn_status split_reader(struct host *host, const void *context, const char *path,
                                     struct dataset_builder *builder);
/* The `load` of every task: finds the file of the split, or cuts the split out of the training file. */
hashattn_status split_load(struct host *host, const struct split_files *files, const char *directory,
                           enum split split, uint64_t seed, const struct dataset *shape, split_reader *read,
                           const void *context, struct dataset *dataset);

/* Writes example (split, index) of a generated data set. */
typedef hashattn_status split_writer(struct host *host, void *context, enum split split, size_t index,
                                     struct file_writer *writer);
/* The `generate` of every task: `header` and then counts[split] examples into each split's file with the
   first ending, test first and train last. */
hashattn_status split_write(struct host *host, const struct split_files *files, const char *directory,
                            const size_t *counts, const char *header, split_writer *write, void *context);

#endif
