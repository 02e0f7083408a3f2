/* Copies structs that grow from and to callers.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/versions.h"

#include <string.h>

hashattn_status version_take(struct host *host, void *own, size_t known, const void *given, size_t least,
                             const char *what)
{
    size_t size;
    FAIL_IF(given == NULL, host, HASHATTN_INVALID, "%s is NULL", what);
    memcpy(&size, given, sizeof size);
    FAIL_IF(size < least, host, HASHATTN_INVALID,
            "%s: struct_size is %zu, at least %zu is needed (fill it with its _default function)", what, size,
            least);
    for (size_t i = known; i < size; i++)
        FAIL_IF(((const unsigned char *)given)[i] != 0, host, HASHATTN_INVALID,
                "%s: struct_size is %zu and byte %zu is set; this library knows %zu", what, size, i, known);
    memset(own, 0, known);
    memcpy(own, given, size < known ? size : known);
    return HASHATTN_OK;
}

void version_give(void *given, const void *own, size_t known)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size > known)
        size = known;
    if (size > sizeof size)
        memcpy((unsigned char *)given + sizeof size, (const unsigned char *)own + sizeof size,
               size - sizeof size);
}
