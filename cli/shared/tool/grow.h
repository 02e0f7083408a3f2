/* Arrays that grow.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GROW_H
#define CLI_GROW_H

#include <stdbool.h>
#include <stdlib.h>

/* Makes room for one more element of an array of `count`, at least doubling it; false if memory runs out,
   with the array unchanged. */
static inline bool grow(void **array, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return true;
    size_t wider = *room == 0 ? 16 : 2 * *room;
    void *moved = realloc(*array, wider * size);
    if (moved == NULL)
        return false;
    *array = moved;
    *room = wider;
    return true;
}

#endif
