/* .npy files for the public header: the types that the operator takes, and no others.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/handles.h"
#include "hashattn/io.h"
#include "io/npy.h"

hashattn_status hashattn_npy_read(hashattn_context *context, const char *path, hashattn_npy *array)
{
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || array == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "array");
    memset(array, 0, sizeof *array);
    struct npy file;
    TRY(npy_read(host, path, SIZE_MAX / 2, &file));
    if (file.type != NPY_FLOAT32 && file.type != NPY_BOOL && file.type != NPY_UINT8) {
        npy_free(host, &file);
        return host_fail(host, HASHATTN_BAD_FILE, "%s: holds %s, float32 (or uint8 or bool) is needed", path,
                         npy_type_name(file.type));
    }
    array->element = file.type == NPY_FLOAT32 ? HASHATTN_FLOAT32 : HASHATTN_BYTE;
    array->rank = file.rank;
    memcpy(array->shape, file.shape, sizeof array->shape);
    array->data = file.data;
    return HASHATTN_OK;
}

void hashattn_npy_free(hashattn_context *context, hashattn_npy *array)
{
    if (context == NULL || array == NULL)
        return;
    struct npy file = {.data = array->data};
    npy_free(&context->host, &file);
    memset(array, 0, sizeof *array);
}

hashattn_status hashattn_npy_write(hashattn_context *context, const char *path, const float *data, int rank,
                                   const size_t *shape)
{
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || (shape == NULL && rank != 0), host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "shape");
    FAIL_IF(rank < 0 || rank > NPY_RANK, host, HASHATTN_INVALID, "rank is %d, allowed are 0 to %d", rank,
            NPY_RANK);
    struct npy file = {.type = NPY_FLOAT32, .rank = rank, .count = 1};
    for (int i = 0; i < rank; i++) {
        file.shape[i] = shape[i];
        file.count = shape[i] != 0 && file.count > SIZE_MAX / sizeof(float) / shape[i]
                         ? SIZE_MAX
                         : file.count * shape[i];
    }
    FAIL_IF(file.count == SIZE_MAX, host, HASHATTN_INVALID, "an array of this shape is too large");
    FAIL_IF(data == NULL && file.count > 0, host, HASHATTN_INVALID, "data is NULL");
    /* The writer reads only. */
    memcpy(&file.data, &data, sizeof file.data);
    return npy_write(host, path, &file);
}
