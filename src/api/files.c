/* Files of arbitrary bytes for the public header.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/handles.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "hashattn/io.h"

struct hashattn_file {
    hashattn_context *context;
    struct file_writer writer;
};

hashattn_status hashattn_file_begin(hashattn_context *context, const char *path, hashattn_file **file)
{
    if (file != NULL)
        *file = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || file == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "file");
    void *block;
    TRY(memory_new(host, 1, sizeof **file, "a file", &block));
    hashattn_file *made = block;
    made->context = context;
    hashattn_status status = file_open_writer(host, path, &made->writer);
    if (status != HASHATTN_OK)
        memory_free(host, made);
    else
        *file = made;
    return status;
}

hashattn_status hashattn_file_write(hashattn_file *file, const void *bytes, size_t count)
{
    if (file == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(bytes == NULL && count > 0, &file->context->host, HASHATTN_INVALID, "bytes is NULL");
    file_write(&file->writer, bytes, count);
    return file_writer_status(&file->context->host, &file->writer);
}

hashattn_status hashattn_file_commit(hashattn_file *file)
{
    if (file == NULL)
        return HASHATTN_INVALID;
    struct host *host = &file->context->host;
    hashattn_status status = file_commit(host, &file->writer);
    memory_free(host, file);
    return status;
}

void hashattn_file_drop(hashattn_file *file)
{
    if (file == NULL)
        return;
    file_abandon(&file->writer);
    memory_free(&file->context->host, file);
}
