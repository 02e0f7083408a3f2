/* The words of a text with the number of times that each occurs.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_WORD_COUNTS_H
#define TEXT_WORD_COUNTS_H

#include <stdint.h>

#include "base/file.h"
#include "base/tables/index_table.h"
#include "io/lines.h"

struct word_count {
    size_t start; /* of the word in `bytes` */
    uint32_t size;
    uint64_t count;
};

/* Zeroed at first. */
struct word_counts {
    char *bytes; /* all words, one after another */
    size_t num_bytes, bytes_capacity;
    struct word_count *list; /* (count) in order of first occurrence */
    size_t count, list_capacity;
    struct index_table words; /* indices in the list */
};
void word_counts_free(struct host *host, struct word_counts *counts);

/* Adds one word. */
hashattn_status word_counts_add_word(struct host *host, struct word_counts *counts, struct piece word);
/* Adds the words (byte_level.h) of every line, the line feed included. */
hashattn_status word_counts_add(struct host *host, struct word_counts *counts, struct piece lines);
/* The same for a file of any size (file_open). */
hashattn_status word_counts_add_file(struct host *host, struct word_counts *counts, const char *path,
                                     enum file_source source);

#endif
