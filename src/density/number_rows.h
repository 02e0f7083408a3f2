/* Rows of numbers from a file of any size, a block at a time: an .npy array (n, d) of float32 or float64, or,
   if the name does not end in .npy, comma-separated values. The first record of a CSV file is skipped as the
   names of its columns if it has no number. Numbers become float32. BAD_FILE, with row and column of the
   array, from 0, or line and column of the CSV file, from 1: NaN, infinity, text, a missing number, a row of
   another width.
   Memory: one block and, for CSV, one record. Cost: one pass.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DENSITY_NUMBER_ROWS_H
#define DENSITY_NUMBER_ROWS_H

#include "io/csv.h"
#include "io/npy_parts.h"

/* Rows of a block, unless the file ends: at most 4,096, and at most 2^22 numbers. */
size_t number_rows_block(size_t dim);

struct number_rows {
    const char *path;
    bool is_npy, pending; /* pending: the CSV reader holds a record that is not given yet */
    struct npy_reader npy;
    struct csv csv;
    size_t dim, given; /* columns; rows returned so far */
    float *block;      /* (number_rows_block, dim) */
    double *wide;      /* the same, of a float64 array */
};

/* path must outlive the reader. BAD_FILE: the file has no rows. On failure there is nothing to close. */
hashattn_status number_rows_open(struct host *host, const char *path, struct number_rows *rows);
/* The next rows, (count, dim), valid until the next call; count is 0 at the end. */
hashattn_status number_rows_next(struct host *host, struct number_rows *rows, const float **block,
                                 size_t *count);
void number_rows_close(struct host *host, struct number_rows *rows);

#endif
