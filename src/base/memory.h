/* Blocks of memory with checked sizes and 64-byte alignment, and an arena that divides a caller's block. Run
   on a NULL block, the same arena code computes the size needed, so a size function and the code that uses
   the memory are one function and cannot disagree.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

#include "base/host.h"

enum { MEMORY_ALIGNMENT = 64 }; /* bytes; a cache line and the widest vector */

/* *block = count * size bytes, not initialised; NULL if the product is 0. `what` names it in the message. */
hashattn_status memory_new(struct host *host, size_t count, size_t size, const char *what, void **block);
/* The same, filled with zeros. */
hashattn_status memory_new_zeroed(struct host *host, size_t count, size_t size, const char *what,
                                  void **block);
void memory_free(struct host *host, void *block); /* NULL is allowed */
/* Makes room for `more` elements after the first `used` of a growing array. *array has a capacity of
   *capacity elements and moves if it is too small; its capacity then at least doubles. On failure it stays as
   it was. */
hashattn_status memory_grow(struct host *host, void *array, size_t *capacity, size_t used, size_t more,
                            size_t size, const char *what);

/* a * b and a + b, or SIZE_MAX on overflow. SIZE_MAX stays SIZE_MAX, and allocating it always fails. */
size_t size_product(size_t a, size_t b);
size_t size_sum(size_t a, size_t b);
/* bytes, rounded up to a multiple of MEMORY_ALIGNMENT. SIZE_MAX stays SIZE_MAX. */
size_t size_aligned(size_t bytes);

static inline size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of physical memory; SIZE_MAX if unknown. */
size_t memory_of_machine(void);

/* Divides a block. With block == NULL it only counts: every piece is NULL and `used` is the size needed. */
struct arena {
    unsigned char *block;
    size_t used;
};
struct arena arena_on(void *block);
/* The next piece: count * size bytes, 64-byte aligned if the block is. */
void *arena_take(struct arena *arena, size_t count, size_t size);

#endif
