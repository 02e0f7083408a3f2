/* NumPy's .npy files: one array of numbers with its type and shape. Reads format versions 1 to 3 in C order,
   little endian, rank 0 to 4, with the types below; the message for anything else names it. Writes version
   1.0. Source: the format's description, NEP 1 and numpy.lib.format.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <stdint.h>

#include "base/file_writer.h"
#include "base/host.h"

enum { NPY_RANK = 4 };

enum npy_type {
    NPY_FLOAT32,
    NPY_BOOL, /* one byte; numpy writes 0 and 1, a file may hold anything */
    NPY_UINT8,
    NPY_UINT16,
    NPY_INT32,
    NPY_INT64,
    NPY_FLOAT64,
};
const char *npy_type_name(enum npy_type type); /* "float32" */
size_t npy_type_size(enum npy_type type);

struct npy {
    enum npy_type type;
    int rank;
    size_t shape[NPY_RANK];
    size_t count; /* product of the shape; 1 for rank 0 */
    void *data;   /* (shape) in C order, at a 64-byte boundary; NULL when count is 0 */
};

enum { NPY_MOST_HEADER = (1 << 16) + 64 }; /* bytes before the data, at most */

/* Parses the header of a file of `size` bytes: type, shape and count, and the offset of the data; array->data
   stays NULL. Reads at most NPY_MOST_HEADER bytes, so `bytes` may hold only those. BAD_FILE: anything is
   wrong, the length of the data included. */
hashattn_status npy_parse(struct host *host, const char *bytes, size_t size, struct npy *array, size_t *data);
/* Reads a file of at most `limit` bytes ("-": standard input). */
hashattn_status npy_read(struct host *host, const char *path, size_t limit, struct npy *array);
void npy_free(struct host *host, struct npy *array);

/* Begins a file of this type and shape; then file_write the data in C order, and file_commit or
   file_abandon. */
hashattn_status npy_begin(struct host *host, const char *path, const struct npy *array,
                          struct file_writer *writer);
/* Replaces a file atomically. data: (shape) in C order; array->count is ignored. */
hashattn_status npy_write(struct host *host, const char *path, const struct npy *array);

/* Writes "(2, 3) float32", for messages. */
void npy_describe(const struct npy *array, char *text, size_t size);

#endif
