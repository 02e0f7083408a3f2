/* Rows of numbers in files, for the public header.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/floating.h"
#include "api/handles.h"
#include "base/memory.h"
#include "density/number_rows.h"
#include "hashattn/io.h"

struct hashattn_rows {
    hashattn_context *context;
    struct number_rows rows;
};

hashattn_status hashattn_rows_open(hashattn_context *context, const char *path, hashattn_rows **rows,
                                   size_t *dim)
{
    FLOATING_DEFAULT;
    if (rows != NULL)
        *rows = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || rows == NULL || dim == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL   ? "path"
            : rows == NULL ? "rows"
                           : "dim");
    void *block;
    TRY(memory_new(host, 1, sizeof **rows, "a reader of rows", &block));
    hashattn_rows *made = block;
    made->context = context;
    hashattn_status status = number_rows_open(host, path, &made->rows);
    if (status != HASHATTN_OK) {
        memory_free(host, made);
        return status;
    }
    *dim = made->rows.dim;
    *rows = made;
    return HASHATTN_OK;
}

hashattn_status hashattn_rows_next(hashattn_rows *rows, const float **block, size_t *count)
{
    FLOATING_DEFAULT;
    if (rows == NULL)
        return HASHATTN_INVALID;
    struct host *host = &rows->context->host;
    FAIL_IF(block == NULL || count == NULL, host, HASHATTN_INVALID, "%s is NULL",
            block == NULL ? "block" : "count");
    return number_rows_next(host, &rows->rows, block, count);
}

void hashattn_rows_close(hashattn_rows *rows)
{
    if (rows == NULL)
        return;
    struct host *host = &rows->context->host;
    number_rows_close(host, &rows->rows);
    memory_free(host, rows);
}
