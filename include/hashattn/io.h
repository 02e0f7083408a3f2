/* Arrays on disk in NumPy's own format, and files of any bytes. SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_IO_H
#define HASHATTN_IO_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_npy {
    hashattn_element element; /* FLOAT32 or BYTE: .npy knows no bfloat16 */
    int rank;                 /* 0 to 4 */
    size_t shape[4];
    void *data; /* C order, allocated by the library */
} hashattn_npy;

/* Reads a .npy file ("-": standard input); BAD_FILE, with the place and the numbers, when it is anything but
   a little-endian float32, uint8 or bool array in C order of rank 0 to 4. Free with hashattn_npy_free. */
HASHATTN_API hashattn_status hashattn_npy_read(hashattn_context *context, const char *path,
                                               hashattn_npy *array);
/* NULL data are allowed; the array is empty afterwards. */
HASHATTN_API void hashattn_npy_free(hashattn_context *context, hashattn_npy *array);
/* Writes a float32 array, (shape) in C order, replacing the file in one step ("-": standard output). NO_DISK
   with the system's reason; then an old file is still there. */
HASHATTN_API hashattn_status hashattn_npy_write(hashattn_context *context, const char *path,
                                                const float *data, int rank, const size_t *shape);

/* An array larger than memory, read a part at a time: type and shape go to *array, whose data stay NULL.
   Errors as hashattn_npy_read; standard input and pipes are refused. */
typedef struct hashattn_npy_reader hashattn_npy_reader;
HASHATTN_API hashattn_status hashattn_npy_open(hashattn_context *context, const char *path,
                                               hashattn_npy *array, hashattn_npy_reader **reader);
/* Elements [first, first + count) in C order. INVALID beyond the array; BAD_FILE when the file has become
   shorter. */
HASHATTN_API hashattn_status hashattn_npy_read_part(hashattn_npy_reader *reader, size_t first, size_t count,
                                                    void *to);
HASHATTN_API void hashattn_npy_close(hashattn_npy_reader *reader); /* NULL is allowed */

/* A float32 array written a part at a time, in C order. The file is there, in one step, when `commit` says
   OK: INVALID unless all of the shape was written, NO_DISK with the system's reason. `drop` leaves what was
   there. Both end the writer. */
typedef struct hashattn_npy_writer hashattn_npy_writer;
HASHATTN_API hashattn_status hashattn_npy_begin(hashattn_context *context, const char *path, int rank,
                                                const size_t *shape, hashattn_npy_writer **writer);
HASHATTN_API void hashattn_npy_write_part(hashattn_npy_writer *writer, const float *data, size_t count);
HASHATTN_API hashattn_status hashattn_npy_commit(hashattn_npy_writer *writer);
HASHATTN_API void hashattn_npy_drop(hashattn_npy_writer *writer); /* NULL is allowed */

/* A file of any bytes, written a part at a time ("-": standard output). It is there, in one step, when
   `commit` says OK; NO_DISK, with the system's reason, where it cannot be. `write` says so too, for whoever
   would go on in vain, but not why. `drop` leaves what was there. Both end the file. */
typedef struct hashattn_file hashattn_file;
HASHATTN_API hashattn_status hashattn_file_begin(hashattn_context *context, const char *path,
                                                 hashattn_file **file);
HASHATTN_API hashattn_status hashattn_file_write(hashattn_file *file, const void *bytes, size_t count);
HASHATTN_API hashattn_status hashattn_file_commit(hashattn_file *file);
HASHATTN_API void hashattn_file_drop(hashattn_file *file); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
