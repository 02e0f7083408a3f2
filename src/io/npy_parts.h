/* Reads parts of .npy files larger than memory, in any order. Needs a seekable file, not a pipe. (npy_begin
   writes in parts.)
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_NPY_PARTS_H
#define IO_NPY_PARTS_H

#include "io/npy.h"

struct npy_reader {
    int descriptor;   /* -1: closed */
    struct npy array; /* type, rank, shape and count; no data */
    size_t data;      /* offset of the data */
    char path[4096];
};

/* BAD_FILE: anything in the header is wrong, or the length of the file. After a failure there is nothing to
   close. */
hashattn_status npy_open(struct host *host, const char *path, struct npy_reader *reader);
/* Reads elements [first, first + count), which must lie in the array, to `to`. BAD_FILE: the file has become
   shorter. */
hashattn_status npy_read_part(struct host *host, const struct npy_reader *reader, size_t first, size_t count,
                              void *to);
void npy_close(struct npy_reader *reader); /* does nothing if closed */

#endif
