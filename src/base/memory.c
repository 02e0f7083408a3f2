/* Checked allocation and the arena. A call of the library allocates a few blocks, none per token.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <string.h>
#include <unistd.h>

size_t size_product(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

size_t size_sum(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

size_t size_aligned(size_t bytes)
{
    if (bytes > SIZE_MAX - (MEMORY_ALIGNMENT - 1))
        return SIZE_MAX;
    return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

hashattn_status memory_new(struct host *host, size_t count, size_t size, const char *what, void **block)
{
    *block = NULL;
    size_t bytes = size_product(count, size);
    if (bytes == 0)
        return HASHATTN_OK;
    if (bytes < PTRDIFF_MAX)
        *block = host->allocate(host->user, MEMORY_ALIGNMENT, bytes);
    FAIL_IF(*block == NULL, host, HASHATTN_NO_MEMORY, "no memory for %s: %zu x %zu bytes", what, count, size);
    return HASHATTN_OK;
}

hashattn_status memory_new_zeroed(struct host *host, size_t count, size_t size, const char *what,
                                  void **block)
{
    TRY(memory_new(host, count, size, what, block));
    if (*block != NULL)
        memset(*block, 0, count * size);
    return HASHATTN_OK;
}

void memory_free(struct host *host, void *block)
{
    if (block != NULL)
        host->release(host->user, block);
}

hashattn_status memory_grow(struct host *host, void *array, size_t *capacity, size_t used, size_t more,
                            size_t size, const char *what)
{
    size_t need = size_sum(used, more);
    if (need <= *capacity)
        return HASHATTN_OK;
    size_t larger = size_max(need, size_max(size_product(2, *capacity), 64 / size));
    void *old, *block;
    memcpy(&old, array, sizeof old); /* array is the address of a pointer of any type */
    TRY(memory_new(host, larger, size, what, &block));
    if (used > 0)
        memcpy(block, old, used * size);
    memory_free(host, old);
    memcpy(array, &block, sizeof block);
    *capacity = larger;
    return HASHATTN_OK;
}

size_t memory_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages <= 0 || bytes <= 0 ? SIZE_MAX : size_product((size_t)pages, (size_t)bytes);
}

struct arena arena_on(void *block)
{
    return (struct arena){.block = block, .used = 0};
}

void *arena_take(struct arena *arena, size_t count, size_t size)
{
    size_t bytes = size_product(count, size);
    size_t start = arena->used;
    arena->used = size_sum(start, size_aligned(bytes));
    return arena->block == NULL ? NULL : arena->block + start;
}
