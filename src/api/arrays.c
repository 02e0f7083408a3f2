/* .npy files for the public header, limited to the types that the operator accepts.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "hashattn/io.h"
#include "io/npy.h"
#include "io/npy_parts.h"

static hashattn_status describe(struct host *host, const char *path, const struct npy *file,
                                hashattn_npy *array)
{
    FAIL_IF(file->type != NPY_FLOAT32 && file->type != NPY_BOOL && file->type != NPY_UINT8, host,
            HASHATTN_BAD_FILE,
            "%s: holds %s, float32 (or uint8 or bool) is needed: save array.astype('float32')", path,
            npy_type_name(file->type));
    array->element = file->type == NPY_FLOAT32 ? HASHATTN_FLOAT32 : HASHATTN_BYTE;
    array->rank = file->rank;
    memcpy(array->shape, file->shape, sizeof array->shape);
    return HASHATTN_OK;
}

hashattn_status hashattn_npy_read_sized(hashattn_context *context, const char *path, hashattn_npy *array,
                                        size_t array_bytes)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || array == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "array");
    hashattn_npy own = {.data = NULL};
    version_fill(array, array_bytes, &own, sizeof own);
    struct npy file;
    TRY(npy_read(host, path, SIZE_MAX / 2, &file));
    hashattn_status status = describe(host, path, &file, &own);
    own.data = file.data;
    if (status != HASHATTN_OK)
        npy_free(host, &file);
    else
        version_fill(array, array_bytes, &own, sizeof own);
    return status;
}

void hashattn_npy_free_sized(hashattn_context *context, hashattn_npy *array, size_t array_bytes)
{
    if (context == NULL || array == NULL)
        return;
    struct npy file = {.data = array->data};
    npy_free(&context->host, &file);
    memset(array, 0, array_bytes);
}

/* Fills type, shape and count of a float array to be written. */
static hashattn_status floats_of(struct host *host, int rank, const size_t *shape, struct npy *file)
{
    FAIL_IF(rank < 0 || rank > NPY_RANK, host, HASHATTN_INVALID, "rank is %d, allowed are 0 to %d", rank,
            NPY_RANK);
    *file = (struct npy){.type = NPY_FLOAT32, .rank = rank, .count = 1};
    size_t lengths = 1; /* without zeros: readers of .npy files refuse large ones in an empty array, too */
    for (int i = 0; i < rank; i++) {
        file->shape[i] = shape[i];
        file->count *= shape[i];
        lengths = size_product(lengths, size_max(shape[i], 1));
    }
    FAIL_IF(lengths > PTRDIFF_MAX / sizeof(float), host, HASHATTN_INVALID,
            "an array of this shape is too large");
    return HASHATTN_OK;
}

hashattn_status hashattn_npy_write(hashattn_context *context, const char *path, const float *data, int rank,
                                   const size_t *shape)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || (shape == NULL && rank != 0), host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "shape");
    struct npy file;
    TRY(floats_of(host, rank, shape, &file));
    FAIL_IF(data == NULL && file.count > 0, host, HASHATTN_INVALID, "data is NULL");
    /* The writer only reads the data. */
    memcpy(&file.data, &data, sizeof file.data);
    return npy_write(host, path, &file);
}

hashattn_status hashattn_npy_write_counts(hashattn_context *context, const char *path, const size_t *counts,
                                          size_t count)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || (counts == NULL && count > 0), host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "counts");
    const struct npy file = {.type = NPY_INT64, .rank = 1, .shape = {count}};
    struct file_writer writer;
    TRY(npy_begin(host, path, &file, &writer));
    for (size_t i = 0; i < count; i++) {
        int64_t number = (int64_t)counts[i];
        file_write(&writer, &number, sizeof number);
    }
    return file_commit(host, &writer);
}

/* ---- in parts ------------------------------------------------------------------------------------------ */

struct hashattn_npy_reader {
    hashattn_context *context;
    struct npy_reader file;
};

hashattn_status hashattn_npy_open_sized(hashattn_context *context, const char *path, hashattn_npy *array,
                                        hashattn_npy_reader **reader, size_t array_bytes)
{
    FLOATING_DEFAULT;
    if (reader != NULL)
        *reader = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || array == NULL || reader == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL    ? "path"
            : array == NULL ? "array"
                            : "reader");
    hashattn_npy own = {.data = NULL};
    version_fill(array, array_bytes, &own, sizeof own);
    void *block;
    TRY(memory_new(host, 1, sizeof **reader, "a reader", &block));
    hashattn_npy_reader *made = block;
    made->context = context;
    hashattn_status status = npy_open(host, path, &made->file);
    if (status == HASHATTN_OK)
        status = describe(host, path, &made->file.array, &own);
    if (status != HASHATTN_OK) {
        hashattn_npy_close(made);
        return status;
    }
    version_fill(array, array_bytes, &own, sizeof own);
    *reader = made;
    return HASHATTN_OK;
}

hashattn_status hashattn_npy_read_part(hashattn_npy_reader *reader, size_t first, size_t count, void *to)
{
    FLOATING_DEFAULT;
    if (reader == NULL)
        return HASHATTN_INVALID;
    struct host *host = &reader->context->host;
    size_t there = reader->file.array.count;
    FAIL_IF(first > there || count > there - first, host, HASHATTN_INVALID,
            "%s: %zu elements from %zu on are outside the array of %zu", reader->file.path, count, first,
            there);
    FAIL_IF(to == NULL && count > 0, host, HASHATTN_INVALID, "to is NULL");
    return npy_read_part(host, &reader->file, first, count, to);
}

void hashattn_npy_close(hashattn_npy_reader *reader)
{
    if (reader == NULL)
        return;
    npy_close(&reader->file);
    memory_free(&reader->context->host, reader);
}

struct hashattn_npy_writer {
    hashattn_context *context;
    struct file_writer file;
    size_t written, count;
};

hashattn_status hashattn_npy_begin(hashattn_context *context, const char *path, int rank, const size_t *shape,
                                   hashattn_npy_writer **writer)
{
    FLOATING_DEFAULT;
    if (writer != NULL)
        *writer = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || writer == NULL || (shape == NULL && rank != 0), host, HASHATTN_INVALID,
            "%s is NULL",
            path == NULL     ? "path"
            : writer == NULL ? "writer"
                             : "shape");
    struct npy array;
    TRY(floats_of(host, rank, shape, &array));
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof **writer, "a writer", &block));
    hashattn_npy_writer *made = block;
    made->context = context;
    made->count = array.count;
    hashattn_status status = npy_begin(host, path, &array, &made->file);
    if (status != HASHATTN_OK) {
        memory_free(host, made);
        return status;
    }
    *writer = made;
    return HASHATTN_OK;
}

void hashattn_npy_write_part(hashattn_npy_writer *writer, const float *data, size_t count)
{
    file_write(&writer->file, data, count * sizeof *data);
    writer->written += count;
}

hashattn_status hashattn_npy_commit(hashattn_npy_writer *writer)
{
    FLOATING_DEFAULT;
    if (writer == NULL)
        return HASHATTN_INVALID;
    struct host *host = &writer->context->host;
    hashattn_status status;
    if (writer->written != writer->count) {
        status = host_fail(host, HASHATTN_INVALID, "%zu numbers were written, the shape has %zu",
                           writer->written, writer->count);
        file_abandon(&writer->file);
    } else {
        status = file_commit(host, &writer->file);
    }
    memory_free(host, writer);
    return status;
}

void hashattn_npy_drop(hashattn_npy_writer *writer)
{
    if (writer == NULL)
        return;
    file_abandon(&writer->file);
    memory_free(&writer->context->host, writer);
}
