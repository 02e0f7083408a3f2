/* What follows the last line feed of a block moves to the beginning of the next one.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/line_blocks.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/utf8.h"

hashattn_status line_blocks_open(struct host *host, const char *path, enum file_source source,
                                 struct line_blocks *blocks)
{
    *blocks = (struct line_blocks){.file = -1, .path = path};
    return file_open(host, path, source, &blocks->file);
}

void line_blocks_close(struct host *host, struct line_blocks *blocks)
{
    if (blocks->file >= 0)
        close(blocks->file);
    memory_free(host, blocks->bytes);
    encoded_free(host, &blocks->encoded);
    *blocks = (struct line_blocks){.file = -1};
}

/* Fills the block; *ended: the file has no more. */
static hashattn_status fill(struct host *host, struct line_blocks *blocks, bool *ended)
{
    size_t until = blocks->used + LINE_BLOCK;
    TRY(memory_grow(host, &blocks->bytes, &blocks->capacity, blocks->used, LINE_BLOCK, 1, "lines of a file"));
    *ended = false;
    while (blocks->used < until && !*ended) {
        size_t got;
        TRY(file_read_some(host, blocks->path, blocks->file, blocks->bytes + blocks->used,
                           until - blocks->used, &got));
        *ended = got == 0;
        blocks->used += got;
    }
    return HASHATTN_OK;
}

/* Before the bytes are taken for another encoding, which may have characters for all of them. */
static hashattn_status check_start(struct host *host, struct line_blocks *blocks)
{
    if (blocks->begun)
        return HASHATTN_OK;
    blocks->begun = true;
    hashattn_status status = utf8_check_start(host, blocks->bytes, blocks->used);
    if (status != HASHATTN_OK && blocks->path != NULL)
        host_prefix(host, file_is_standard(blocks->path) ? "standard input" : blocks->path);
    return status;
}

hashattn_status line_blocks_next(struct host *host, struct line_blocks *blocks, struct piece *block)
{
    bool ended = false;
    blocks->used -= blocks->given;
    if (blocks->given > 0)
        memmove(blocks->bytes, blocks->bytes + blocks->given, blocks->used);
    blocks->given = 0;
    *block = (struct piece){NULL, 0};
    while (!ended && blocks->given == 0) {
        size_t before = blocks->used;
        TRY(fill(host, blocks, &ended));
        TRY(check_start(host, blocks));
        size_t end = blocks->used; /* of the last whole line */
        while (end > before && blocks->bytes[end - 1] != '\n')
            end--;
        blocks->given = end > before ? end : 0;
    }
    if (ended)
        blocks->given = blocks->used;
    return encoded_utf8(host, blocks->encoding, (struct piece){blocks->bytes, blocks->given},
                        &blocks->encoded, block);
}
