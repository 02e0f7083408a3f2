/* Arrays that grow.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GROW_H
#define CLI_GROW_H

#include <stdbool.h>
#include <stdlib.h>

/* Makes room for one more element of an array of `count`, at least doubling it; false if memory runs out,
   with the array unchanged. */
static inline bool grow(void **array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return true;
    size_t wider = *capacity == 0 ? 16 : 2 * *capacity;
    void *moved = realloc(*array, wider * size);
    if (moved == NULL)
        return false;
    *array = moved;
    *capacity = wider;
    return true;
}

#endif
