/* The parser of whole files reads the header, given the size of the file; each part is then one positioned
   read.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/npy_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

/* Reads up to `count` bytes at offset `at`. Returns how many the file has there; -1 if reading fails. */
static ptrdiff_t read_at(int descriptor, void *to, size_t count, size_t at)
{
    size_t got = 0;
    while (got < count) {
        ssize_t more = pread(descriptor, (char *)to + got, count - got, (off_t)(at + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return -1;
        if (more == 0)
            break;
        got += (size_t)more;
    }
    return (ptrdiff_t)got;
}

static hashattn_status open_header(struct host *host, struct npy_reader *reader, size_t size)
{
    size_t head = size < NPY_MOST_HEADER ? size : NPY_MOST_HEADER;
    void *bytes;
    TRY(memory_new(host, head, 1, "the header of an array", &bytes));
    hashattn_status status;
    if (read_at(reader->descriptor, bytes, head, 0) != (ptrdiff_t)head)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s: cannot read: %s", reader->path, strerror(errno));
    else if ((status = npy_parse(host, bytes, size, &reader->array, &reader->data)) != HASHATTN_OK)
        host_prefix(host, reader->path);
    memory_free(host, bytes);
    return status;
}

hashattn_status npy_open(struct host *host, const char *path, struct npy_reader *reader)
{
    memset(reader, 0, sizeof *reader);
    reader->descriptor = -1;
    size_t size;
    FAIL_IF(strlen(path) >= sizeof reader->path, host, HASHATTN_BAD_FILE, "a path of %zu bytes is too long",
            strlen(path));
    memcpy(reader->path, path, strlen(path) + 1);
    TRY(file_open_regular(host, path, &reader->descriptor, &size));
    hashattn_status status = open_header(host, reader, size);
    if (status != HASHATTN_OK)
        npy_close(reader);
    return status;
}

hashattn_status npy_read_part(struct host *host, const struct npy_reader *reader, size_t first, size_t count,
                              void *to)
{
    size_t size = npy_type_size(reader->array.type);
    ptrdiff_t got = read_at(reader->descriptor, to, count * size, reader->data + first * size);
    FAIL_IF(got < 0, host, HASHATTN_BAD_FILE, "%s: cannot read element %zu: %s", reader->path, first,
            strerror(errno));
    FAIL_IF((size_t)got < count * size, host, HASHATTN_BAD_FILE,
            "%s: ends at element %zu, it had %zu when it was opened", reader->path,
            first + (size_t)got / size, reader->array.count);
    return HASHATTN_OK;
}

void npy_close(struct npy_reader *reader)
{
    if (reader->descriptor >= 0)
        close(reader->descriptor);
    reader->descriptor = -1;
}
