/* Arrays in NumPy's .npy format, rows of numbers from .npy or CSV, and files of arbitrary bytes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_IO_H
#define HASHATTN_IO_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_npy {
    hashattn_element element; /* FLOAT32 or BYTE; .npy has no bfloat16 */
    int rank;                 /* 0 to 4 */
    size_t shape[4];
    void *data; /* C order, allocated by the library */
} hashattn_npy;

/* Reads a .npy file ("-": standard input) that holds a little-endian float32, uint8 or bool array in C order,
   of rank 0 to 4; anything else is BAD_FILE, with the position and the numbers. Free with
   hashattn_npy_free. */
HASHATTN_API hashattn_status hashattn_npy_read_sized(hashattn_context *context, const char *path,
                                                     hashattn_npy *array, size_t array_bytes);
HASHATTN_INLINE hashattn_status hashattn_npy_read(hashattn_context *context, const char *path,
                                                  hashattn_npy *array)
{
    return hashattn_npy_read_sized(context, path, array, sizeof *array);
}
/* Accepts NULL data; leaves the array empty. */
HASHATTN_API void hashattn_npy_free_sized(hashattn_context *context, hashattn_npy *array, size_t array_bytes);
HASHATTN_INLINE void hashattn_npy_free(hashattn_context *context, hashattn_npy *array)
{
    hashattn_npy_free_sized(context, array, sizeof *array);
}
/* Writes a float32 array, (shape) in C order, and replaces the file atomically ("-": standard output).
   NO_DISK, with the system's reason; an old file then remains. */
HASHATTN_API hashattn_status hashattn_npy_write(hashattn_context *context, const char *path,
                                                const float *data, int rank, const size_t *shape);

/* Writes a one-dimensional array of counts as int64. Otherwise as hashattn_npy_write. */
HASHATTN_API hashattn_status hashattn_npy_write_counts(hashattn_context *context, const char *path,
                                                       const size_t *counts, size_t count);

/* Reads an array larger than memory in parts. Open fills type and shape of *array; its data stay NULL. Errors
   as in hashattn_npy_read; standard input and pipes are refused. */
typedef struct hashattn_npy_reader hashattn_npy_reader;
HASHATTN_API hashattn_status hashattn_npy_open_sized(hashattn_context *context, const char *path,
                                                     hashattn_npy *array, hashattn_npy_reader **reader,
                                                     size_t array_bytes);
HASHATTN_INLINE hashattn_status hashattn_npy_open(hashattn_context *context, const char *path,
                                                  hashattn_npy *array, hashattn_npy_reader **reader)
{
    return hashattn_npy_open_sized(context, path, array, reader, sizeof *array);
}
/* Reads elements [first, first + count) in C order. INVALID: beyond the array. BAD_FILE: the file has become
   shorter. */
HASHATTN_API hashattn_status hashattn_npy_read_part(hashattn_npy_reader *reader, size_t first, size_t count,
                                                    void *to);
HASHATTN_API void hashattn_npy_close(hashattn_npy_reader *reader); /* NULL is allowed */

/* Writes a float32 array in parts, in C order. The file appears atomically when `commit` returns OK. INVALID:
   not all of the shape was written. NO_DISK, with the system's reason. `drop` leaves an old file as it was.
   Both free the writer. */
typedef struct hashattn_npy_writer hashattn_npy_writer;
HASHATTN_API hashattn_status hashattn_npy_begin(hashattn_context *context, const char *path, int rank,
                                                const size_t *shape, hashattn_npy_writer **writer);
HASHATTN_API void hashattn_npy_write_part(hashattn_npy_writer *writer, const float *data, size_t count);
HASHATTN_API hashattn_status hashattn_npy_commit(hashattn_npy_writer *writer);
HASHATTN_API void hashattn_npy_drop(hashattn_npy_writer *writer); /* NULL is allowed */

/* Writes a file of arbitrary bytes in parts ("-": standard output). It appears atomically when `commit`
   returns OK. NO_DISK, with the system's reason; `write` returns it at once, so that the caller can stop
   early. `drop` leaves an old file as it was, and passes on what was written to standard output, a pipe or a
   device. `commit` and `drop` free the handle. */
typedef struct hashattn_file hashattn_file;
HASHATTN_API hashattn_status hashattn_file_begin(hashattn_context *context, const char *path,
                                                 hashattn_file **file);
HASHATTN_API hashattn_status hashattn_file_write(hashattn_file *file, const void *bytes, size_t count);
HASHATTN_API hashattn_status hashattn_file_commit(hashattn_file *file);
HASHATTN_API void hashattn_file_drop(hashattn_file *file); /* NULL is allowed */

/* Rows of numbers from a file of any size, a block at a time: an .npy array (n, d) of float32 or float64, or,
   if the name does not end in .npy, comma-separated values ("-": standard input), whose first record may
   have the names of the columns. *dim: the columns. BAD_FILE, with row or line and column: NaN, infinity,
   text, a missing number, a row of another width, no rows. path must outlive the reader. */
typedef struct hashattn_rows hashattn_rows;
HASHATTN_API hashattn_status hashattn_rows_open(hashattn_context *context, const char *path,
                                                hashattn_rows **rows, size_t *dim);
/* The next rows (*count, dim) as float32, valid until the next call; *count is 0 at the end. A block has
   4,096 rows, or fewer if it had over 2^22 numbers. */
HASHATTN_API hashattn_status hashattn_rows_next(hashattn_rows *rows, const float **block, size_t *count);
HASHATTN_API void hashattn_rows_close(hashattn_rows *rows); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
