/* A file of any size in blocks of whole lines, so that memory does not grow with the file.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_LINE_BLOCKS_H
#define IO_LINE_BLOCKS_H

#include <stdbool.h>

#include "base/file.h"
#include "io/encoding.h"
#include "io/lines.h"

enum { LINE_BLOCK = 1 << 20 }; /* bytes that are read at once; a longer line makes the block grow */

struct line_blocks {
    int file;         /* -1: closed */
    const char *path; /* for messages; NULL: they have none */
    char *bytes;
    size_t used, capacity;       /* bytes in the block, and allocated */
    size_t given;                /* bytes that the last call returned */
    bool begun;                  /* a block was read */
    enum text_encoding encoding; /* of the file; set it after opening, UTF-8 otherwise */
    struct encoded encoded;      /* the last block as UTF-8, if the file is not */
};

/* Opens a file of lines (file_open). path must outlive the blocks. BAD_FILE: it cannot be
   opened; then there is nothing to close. */
hashattn_status line_blocks_open(struct host *host, const char *path, enum file_source source,
                                 struct line_blocks *blocks);
/* The next whole lines with their line feeds, which the last line of the file may lack; valid until the next
   call. The size is 0 at the end. BAD_FILE: the file cannot be read, or begins as no text does
   (utf8_check_start). */
hashattn_status line_blocks_next(struct host *host, struct line_blocks *blocks, struct piece *block);
void line_blocks_close(struct host *host, struct line_blocks *blocks);

#endif
