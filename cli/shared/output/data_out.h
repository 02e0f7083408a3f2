/* What was read of a data set, as a table for people or as JSON: the parts, the labels with their counts, and
   an example of the first and the last label.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DATA_OUT_H
#define CLI_DATA_OUT_H

#include <stdbool.h>

#include "cli/shared/output/json_out.h"
#include "hashattn/hashattn.h"

enum { DATA_PARTS = 3, DATA_TEXT = 256, DATA_COLUMNS = 640 };

/* Starts as zeros. */
struct data_read {
    hashattn_data_part parts[DATA_PARTS]; /* numbers; the pointers are those of the following */
    size_t count;
    size_t *label_counts[DATA_PARTS];
    char **labels;                      /* (num_labels) */
    struct data_label *labels_by_count; /* (num_labels) room for sorting them */
    char columns[DATA_COLUMNS], examples[2][DATA_TEXT];
    bool no_memory;
};

/* A hashattn_data_callback: keeps the part in `user`, a struct data_read. */
int data_read_add(void *user, const hashattn_data_part *part);
/* At most ten labels; of more, the most frequent and the rarest. */
void data_read_words(const struct data_read *read, FILE *stream);
/* Members of an open object. */
void data_read_json(const struct data_read *read, struct json_out *json);
void data_read_free(struct data_read *read);

#endif
