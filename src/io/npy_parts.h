/* .npy files larger than memory, read a part at a time, by place and so in any order; it needs a file that
   has places, not a pipe. (Writing in parts is npy_begin.)
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_NPY_PARTS_H
#define IO_NPY_PARTS_H

#include "io/npy.h"

struct npy_reader {
    int descriptor;   /* -1: closed */
    struct npy array; /* type, rank, shape and count; no data */
    size_t data;      /* where they begin */
    char path[4096];
};

/* What does not fit, the length of the file included, is BAD_FILE. After a failure there is nothing to close.
 */
hashattn_status npy_open(struct host *host, const char *path, struct npy_reader *reader);
/* Elements [first, first + count), which the array has, to `to`. A file that has become shorter is BAD_FILE.
 */
hashattn_status npy_read_part(struct host *host, const struct npy_reader *reader, size_t first, size_t count,
                              void *to);
void npy_close(struct npy_reader *reader); /* harmless when closed */

#endif
